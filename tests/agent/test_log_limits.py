"""Floods of log lines: the lines that an agent keeps, and its note about the dropped ones."""

import json
from dataclasses import replace

import pytest
from det_agent.log_limits import BURST_S, SEARCH_RATE, SEARCH_S, LogLimits
from det_agent.runtime import ContainerKey
from det_agent.spool import Spool, SpoolFull
from det_agent.task_logs import TaskLine, output_line
from det_controlplane.core import patterns

KEY = ContainerKey("c", 1, "t.1", "t")
OTHER = ContainerKey("d", 1, "u.1", "u")
LINE = TaskLine(json.dumps({"log": "x" * 100}).encode(), "x" * 100)
LINES_S, BYTES_S = 10, 1_000_000


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limits(spool: Spool, clock: Clock) -> LogLimits:
    return LogLimits(spool, "agent-1", LINES_S, BYTES_S, clock)


def stored_texts(spool: Spool) -> list[str]:
    """Return the texts that wait to be sent."""
    batch = spool.next_batch(max_lines=100_000, max_bytes=1 << 30)
    if batch is None:
        return []
    spool.acknowledge(batch)
    return [json.loads(line)["log"] for line in batch.lines]


def test_one_minute_of_lines_passes_at_once(limits: LogLimits, spool: Spool) -> None:
    limits.append(KEY, [LINE] * 1000)
    assert len(stored_texts(spool)) == LINES_S * BURST_S


def test_number_of_dropped_lines_is_reported_afterwards(
    limits: LogLimits, spool: Spool, clock: Clock
) -> None:
    limits.append(KEY, [LINE] * 700)
    limits.append(KEY, [LINE] * 5)
    stored_texts(spool)
    clock.now_s += 2
    limits.append(KEY, [LINE] * 3)
    about, *lines = stored_texts(spool)
    assert about.startswith("105 lines dropped here: log rate limit (10 lines or 976.562 KiB per s")
    assert "set log_lines_per_second and log_bytes_per_second in the agent's config" in about
    assert len(lines) == 3


def test_notice_stands_at_the_place_and_time_of_dropped_lines(
    limits: LogLimits, spool: Spool, clock: Clock
) -> None:
    def line(number: int) -> TaskLine:
        stamp = f"2026-01-01T00:00:00.{number:06}Z"
        return output_line(KEY, "agent-1", f"line {number}", "stdout", stamp)

    limits.append(KEY, [line(n) for n in range(700)])
    clock.now_s += 2
    limits.append(KEY, [line(n) for n in range(700, 703)])
    batch = spool.next_batch(max_lines=100_000, max_bytes=1 << 30)
    assert batch is not None
    before, notice, after = (json.loads(stored) for stored in batch.lines[599:602])
    assert (before["log"], after["log"]) == ("line 599", "line 700")
    assert notice["log"].startswith("100 lines dropped here")
    assert notice["timestamp"] == "2026-01-01T00:00:00.000600Z"


def test_continuous_excess_adds_few_notes(limits: LogLimits, spool: Spool, clock: Clock) -> None:
    for _ in range(1000):
        clock.now_s += 0.1
        limits.append(KEY, [LINE] * 10)
    texts = stored_texts(spool)
    assert sum("dropped" in text for text in texts) <= 100
    assert len(texts) <= LINES_S * (BURST_S + 100) + 100


def test_long_lines_count_by_their_bytes(spool: Spool, clock: Clock) -> None:
    limits = LogLimits(spool, "agent-1", 1000, len(LINE.encoded), clock)
    limits.append(KEY, [LINE] * 1000)
    assert len(stored_texts(spool)) == BURST_S


def test_number_of_dropped_lines_is_reported_at_the_end_of_a_task(
    limits: LogLimits, spool: Spool
) -> None:
    limits.append(KEY, [LINE] * 601)
    stored_texts(spool)
    limits.ended(KEY)
    (about,) = stored_texts(spool)
    assert about.startswith("1 line dropped")
    limits.append(KEY, [LINE] * 5)
    assert len(stored_texts(spool)) == 5


def test_limit_applies_to_each_task(limits: LogLimits, spool: Spool) -> None:
    limits.append(KEY, [LINE] * 1000)
    stored_texts(spool)
    limits.append(OTHER, [LINE] * 5)
    assert len(stored_texts(spool)) == 5


def test_limit_of_zero_drops_no_lines(spool: Spool) -> None:
    LogLimits(spool, "agent-1", 0, 0).append(KEY, [LINE] * 2000)
    assert len(stored_texts(spool)) == 2000


def refuse(limits: LogLimits, key: ContainerKey, count: int, spool: Spool) -> None:
    """Let a spool that is full refuse lines, as often as they are sent in some minutes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spool, "_max_bytes", 0)
        for _ in range(20):
            with pytest.raises(SpoolFull):
                limits.append(key, [LINE] * count)


def test_lines_rejected_by_a_full_spool_count_once(limits: LogLimits, spool: Spool) -> None:
    refuse(limits, KEY, 400, spool)
    limits.append(KEY, [LINE] * 400)
    assert len(stored_texts(spool)) == 400


def test_dropped_lines_are_reported_after_a_full_spool(
    limits: LogLimits, spool: Spool, clock: Clock
) -> None:
    limits.append(KEY, [LINE] * 700)
    clock.now_s += 10
    refuse(limits, KEY, 1, spool)
    limits.append(KEY, [LINE])
    texts = stored_texts(spool)
    assert len(texts) == 602
    assert texts[600].startswith("100 lines dropped")


class Searches:
    """Searches that match everything and take a second of a processor each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken_s = 0.0
        monkeypatch.setattr(patterns, "matches", self._matches)

    def _matches(self, pattern: str, line: str) -> bool:
        self.taken_s += 1
        return True

    def clock(self) -> float:
        return self.taken_s


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Searches:
    return Searches(monkeypatch)


@pytest.fixture
def searching(spool: Spool, clock: Clock, searches: Searches) -> LogLimits:
    return LogLimits(spool, "agent-1", LINES_S, BYTES_S, clock, searches.clock)


SEARCHED = replace(KEY, log_patterns=("x", "y"))


def matched(spool: Spool) -> list[list[str]]:
    batch = spool.next_batch(max_lines=100_000, max_bytes=1 << 30)
    assert batch is not None
    spool.acknowledge(batch)
    lines = [json.loads(line) for line in batch.lines]
    return [line.get("matched", []) for line in lines if line.get("source") != "agent"]


def test_dropped_lines_are_not_searched(
    searching: LogLimits, spool: Spool, searches: Searches
) -> None:
    searching.append(KEY, [LINE] * LINES_S * int(BURST_S))
    searching.append(SEARCHED, [LINE] * 1000)
    assert searches.taken_s == 0


def test_stored_lines_have_their_matching_patterns(searching: LogLimits, spool: Spool) -> None:
    searching.append(SEARCHED, [LINE] * 2)
    assert matched(spool) == [["x", "y"]] * 2


def test_lines_rejected_by_a_full_spool_are_searched_when_repeated(
    searching: LogLimits, spool: Spool
) -> None:
    refuse(searching, SEARCHED, 2, spool)
    searching.append(SEARCHED, [LINE])
    assert matched(spool) == [["x", "y"]]


def test_search_time_of_a_task_is_limited(
    searching: LogLimits, spool: Spool, clock: Clock, searches: Searches
) -> None:
    searching.append(SEARCHED, [LINE] * 100)
    assert searches.taken_s == SEARCH_S + len(SEARCHED.log_patterns), (
        "includes the line that reports the limit"
    )
    assert len(matched(spool)) == 100, "all lines are stored"
    clock.now_s += 2 / SEARCH_RATE
    searching.append(SEARCHED, [LINE] * 10)
    assert matched(spool) == [["x", "y"]] + [[]] * 9


def test_exceeded_search_time_is_reported_once(searching: LogLimits, spool: Spool) -> None:
    for _ in range(3):
        searching.append(SEARCHED, [LINE] * 10)
    assert sum("take too long" in text for text in stored_texts(spool)) == 1
