"""The tick runs when woken and when due, never busily, and survives its failures."""

import logging
import threading
import time
from itertools import count, pairwise
from types import SimpleNamespace

import pytest
from det_controlplane.db.engine.errors import TryAgain
from det_controlplane.entry.server import tick_loop
from det_controlplane.entry.server.tick_loop import TickLoop


class Ticks:
    """Counts ticks and lets a test wait for the n-th."""

    def __init__(self, *results: float | Exception | None) -> None:
        self._results = list(results)
        self._changed = threading.Condition()
        self.count = 0

    def __call__(self) -> float | None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()
        result = self._results.pop(0) if self._results else None
        if isinstance(result, Exception):
            raise result
        return result

    def reached(self, count: int, seconds: float = 60) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.count >= count, seconds)


def test_loop_ticks_at_start_and_then_waits() -> None:
    ticks = Ticks()
    with TickLoop(ticks).running():
        assert ticks.reached(1)
        assert not ticks.reached(2, seconds=0.3)


def test_wake_causes_a_tick() -> None:
    ticks = Ticks()
    loop = TickLoop(ticks)
    with loop.running():
        assert ticks.reached(1)
        loop.wake()
        assert ticks.reached(2)


def pauses_after_a_long_tick(monkeypatch: pytest.MonkeyPatch, **options: float) -> list[float]:
    rests: list[float] = []
    clock = SimpleNamespace(monotonic=count(step=10).__next__, sleep=rests.append)
    monkeypatch.setattr(tick_loop, "time", clock)
    ticks = Ticks()
    loop = TickLoop(ticks, **options)
    with loop.running():
        assert ticks.reached(1)
        loop.wake()
        assert ticks.reached(2)
    return rests


def test_loop_pauses_longer_after_a_long_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(pauses_after_a_long_tick(monkeypatch)) == {0.5}


def test_webhook_loop_sends_the_next_message_within_100_ms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rests = pauses_after_a_long_tick(monkeypatch, longest_rest_s=tick_loop.SHORT_REST_S)
    assert max(rests) < 0.1


def test_due_time_causes_a_tick() -> None:
    ticks = Ticks(0.01, 0.01)
    with TickLoop(ticks).running():
        assert ticks.reached(3)


def test_many_wakes_during_a_tick_cause_one_more_tick() -> None:
    ticks, flooded = Ticks(), threading.Event()

    def busy_at_first() -> float | None:
        due_s = ticks()
        assert flooded.wait(60)
        return due_s

    loop = TickLoop(busy_at_first)
    with loop.running():
        assert ticks.reached(1)
        for _ in range(1000):
            loop.wake()
        flooded.set()
        assert ticks.reached(2)
        assert not ticks.reached(3, seconds=0.3)


def test_failed_tick_is_logged_and_repeated(caplog: pytest.LogCaptureFixture) -> None:
    ticks = Ticks(RuntimeError("database gone"))
    with caplog.at_level(logging.ERROR), TickLoop(ticks).running():
        assert ticks.reached(2)
    assert "database gone" in caplog.text


def test_slow_ticks_leave_time_between_them() -> None:
    ends: list[float] = []
    enough, never = threading.Event(), threading.Event()

    def slow() -> None:
        loop.wake()
        never.wait(0.03)
        ends.append(time.monotonic())
        if len(ends) == 4:
            enough.set()

    loop = TickLoop(slow)
    with loop.running():
        assert enough.wait(60)
    assert all(later - earlier > 0.14 for earlier, later in pairwise(ends[:4]))


def test_deadlock_is_not_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    ticks = Ticks(TryAgain("deadlock detected"))
    with TickLoop(ticks).running():
        assert ticks.reached(2)
    assert [r for r in caplog.records if r.levelname == "ERROR"] == []
