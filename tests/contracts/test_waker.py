"""The contract of all wakers."""

import asyncio
import threading

import pytest
from det_controlplane.adapters.lambda_functions import LambdaWaker
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.ports.waker import Waker


def test_wake_from_another_thread_releases_only_waiters_of_its_topic() -> None:
    notifier = LocalNotifier()
    waker: Waker = notifier

    async def scenario() -> list[bool]:
        position = notifier.seen()
        waits = [asyncio.create_task(notifier.wait("a", 60, position)) for _ in range(3)]
        other_topic = asyncio.create_task(notifier.wait("b", 0.05, position))
        while notifier.waiting("a") < 3:
            await asyncio.sleep(0)
        thread = threading.Thread(target=waker.wake, args=("a",))
        thread.start()
        results = await asyncio.gather(*waits, other_topic)
        thread.join()
        return results

    assert asyncio.run(scenario()) == [True, True, True, False]


def test_wake_before_the_wait_is_not_lost() -> None:
    notifier = LocalNotifier()

    async def scenario() -> tuple[bool, bool]:
        before = notifier.seen()
        notifier.wake("a")
        missed = await notifier.wait("a", 60, before)
        stale = await notifier.wait("a", 0, notifier.seen())
        return missed, stale

    assert asyncio.run(scenario()) == (True, False)


def test_callback_runs_at_every_wake_of_its_topic() -> None:
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


def test_wake_without_a_waiter_has_no_effect() -> None:
    LocalNotifier().wake("silence")


def test_function_waker_starts_each_existing_function_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    channels: list[str] = []

    class Client:
        def invoke(self, FunctionName: str, InvocationType: str, Payload: bytes) -> None:
            assert InvocationType == "Event"
            channels.append(FunctionName)
            if FunctionName == "broken":
                raise OSError("no route to AWS")

    monkeypatch.setattr("det_controlplane.adapters.lambda_functions._client", lambda _: Client())
    functions = LambdaWaker({"schedule": "tick", "provision": "broken"})
    waker: Waker = functions
    for topic in ("schedule", "agent:1", "schedule", "provision"):
        waker.wake(topic)
    functions.flush()
    assert channels == ["broken", "tick"], "one that cannot be started keeps no other from it"
    functions.flush()
    assert channels == ["broken", "tick", "broken"], "what could not be started is not forgotten"
