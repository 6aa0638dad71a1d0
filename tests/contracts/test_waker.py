"""What every waker promises to those who wait."""

import asyncio
import threading

import pytest
from det_controlplane.adapters.lambda_functions import LambdaWaker
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.ports.waker import Waker


def test_a_wake_from_another_thread_releases_every_waiter_of_its_topic_only() -> None:
    notifier = LocalNotifier()
    waker: Waker = notifier

    async def scenario() -> list[bool]:
        seen = notifier.seen()
        waits = [asyncio.create_task(notifier.wait("a", 60, seen)) for _ in range(3)]
        other = asyncio.create_task(notifier.wait("b", 0.05, seen))
        while notifier.waiting("a") < 3:
            await asyncio.sleep(0)
        thread = threading.Thread(target=waker.wake, args=("a",))
        thread.start()
        results = await asyncio.gather(*waits, other)
        thread.join()
        return results

    assert asyncio.run(scenario()) == [True, True, True, False]


def test_a_wake_after_what_was_seen_is_remembered() -> None:
    notifier = LocalNotifier()

    async def scenario() -> tuple[bool, bool]:
        before = notifier.seen()
        notifier.wake("a")
        missed = await notifier.wait("a", 60, before)
        stale = await notifier.wait("a", 0, notifier.seen())
        return missed, stale

    assert asyncio.run(scenario()) == (True, False)


def test_a_callback_runs_at_every_wake_of_its_topic() -> None:
    notifier, calls = LocalNotifier(), []
    notifier.on("schedule", lambda: calls.append(1))
    for topic in ("schedule", "agent:1", "schedule"):
        notifier.wake(topic)
    assert len(calls) == 2


def test_a_million_topics_do_not_fill_the_memory() -> None:
    notifier = LocalNotifier()
    for n in range(20_000):
        notifier.wake(f"logs:{n}")
    assert len(notifier._last) < 5_000


def test_nobody_waiting_is_no_problem() -> None:
    LocalNotifier().wake("silence")


def test_a_waker_of_functions_starts_each_once_and_only_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[str] = []

    class Client:
        def invoke(self, FunctionName: str, InvocationType: str, Payload: bytes) -> None:
            assert InvocationType == "Event"
            started.append(FunctionName)
            if FunctionName == "broken":
                raise OSError("no route to AWS")

    monkeypatch.setattr("det_controlplane.adapters.lambda_functions._client", lambda _: Client())
    functions = LambdaWaker({"schedule": "tick", "provision": "broken"})
    waker: Waker = functions
    for topic in ("schedule", "agent:1", "schedule", "provision"):
        waker.wake(topic)
    functions.flush()
    assert started == ["broken", "tick"], "one that cannot be started keeps no other from it"
    functions.flush()
    assert started == ["broken", "tick", "broken"], "what could not be started is not forgotten"
