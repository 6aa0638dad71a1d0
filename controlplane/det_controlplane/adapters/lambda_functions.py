"""The other functions of a deployment on AWS, and the schedules that call them. boto3 is loaded when it is needed."""

import logging
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

log = logging.getLogger("det.lambda")


class LambdaWaker:
    """Starts the function of a topic, asynchronously, once what woke it is stored.

    Topics without a function wake nobody: nothing waits inside a function."""

    def __init__(self, functions: Mapping[str, str]) -> None:
        self._functions = functions
        self._lock = threading.Lock()
        self._topics: set[str] = set()

    def wake(self, topic: str) -> None:
        if topic in self._functions:
            with self._lock:
                self._topics.add(topic)

    def flush(self) -> None:
        """Start what was woken since the last time; what cannot be started, next time: the schedules may be off."""
        with self._lock:
            topics, self._topics = self._topics, set()
        for topic in sorted(topics):
            name = self._functions[topic]
            try:
                self._client.invoke(FunctionName=name, InvocationType="Event", Payload=b"{}")
            except Exception:
                log.exception("the function %s could not be started", name)
                self.wake(topic)

    @cached_property
    def _client(self) -> Any:
        return _client("lambda")


class Schedules:
    """Schedules of EventBridge that the control plane switches."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def switch(self, *, on: bool) -> None:
        """Enable or disable every schedule that is in the other state."""
        state = "ENABLED" if on else "DISABLED"
        for name in self._names:
            found = self._client.get_schedule(Name=name)
            if found["State"] != state:
                kept = ("Name", "ScheduleExpression", "FlexibleTimeWindow", "Target", "GroupName")
                given = {key: found[key] for key in kept if key in found}
                self._client.update_schedule(**given, State=state)
                log.info("the schedule %s is %s", name, state)

    @cached_property
    def _client(self) -> Any:
        return _client("scheduler")


def _client(service: str) -> Any:
    import boto3
    from botocore.config import Config

    # A function in a network without NAT reaches AWS by IPv6 alone; failing fast leaves time to answer.
    limits = Config(connect_timeout=2, read_timeout=5, retries={"max_attempts": 2})
    return boto3.client(service, config=limits)
