"""Invoke the other functions of a deployment on AWS, and switch their schedules. boto3 is imported at first use."""

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from det_controlplane.ports.compute import Unreachable
from det_controlplane.ports.courier import Unsent

log = logging.getLogger("det.lambda")


class LambdaWaker:
    """Start the function of a topic asynchronously, after the change was committed.

    Topics without a function are dropped, because a function has no waiters."""

    def __init__(self, functions: Mapping[str, str]) -> None:
        self._functions = functions
        self._lock = threading.Lock()
        self._topics: set[str] = set()

    def wake(self, topic: str) -> None:
        if topic in self._functions:
            with self._lock:
                self._topics.add(topic)

    def flush(self) -> None:
        """Start the functions of the collected topics. A failed start is repeated at the next flush."""
        with self._lock:
            topics, self._topics = self._topics, set()
        # Several topics may have the same function.
        for name, topic in {self._functions[topic]: topic for topic in sorted(topics)}.items():
            try:
                self._client.invoke(FunctionName=name, InvocationType="Event", Payload=b"{}")
            except Exception:
                log.exception("the function %s could not be started", name)
                self.wake(topic)

    @cached_property
    def _client(self) -> Any:
        return _client("lambda")


class LambdaIssuers:
    """Ask issuers through a function in a network with access to IPv4."""

    def __init__(self, function: str) -> None:
        self._function = function

    def keys(self, issuer: str) -> dict[str, Any]:
        return dict(_invoke_function(self._function, {"issuer": issuer}))

    def describe(self, issuer: str) -> dict[str, Any]:
        return dict(_invoke_function(self._function, {"issuer": issuer, "describe": True}))

    def post(
        self, issuer: str, url: str, form: Mapping[str, str], secret: tuple[str, str] | None
    ) -> tuple[int, dict[str, Any]]:
        request = {"issuer": issuer, "url": url, "form": dict(form), "secret": secret}
        status, answer = _invoke_function(self._function, request)
        return int(status), dict(answer)


class LambdaCourier:
    """A `Courier` that uses the same function."""

    def __init__(self, function: str) -> None:
        self._function = function

    def check(self, url: str) -> None:
        self._call({"check": url})

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        self._call({"post": url, "body": body.decode(), "headers": dict(headers)})

    def _call(self, request: Mapping[str, Any]) -> None:
        try:
            answer = _invoke_function(self._function, request)
        except Unreachable as e:
            raise Unsent(str(e)) from e
        if answer.get("unsent"):
            raise Unsent(str(answer["unsent"]), forever=bool(answer.get("forever")))


def _invoke_function(function: str, request: Mapping[str, Any]) -> Any:
    """Invoke a function and return its answer. Raises Unreachable."""
    from botocore.exceptions import BotoCoreError, ClientError

    payload = json.dumps(request).encode()
    try:
        answer = _client("lambda", 15).invoke(FunctionName=function, Payload=payload)
        result = json.loads(answer["Payload"].read())
    except (BotoCoreError, ClientError, ValueError) as e:
        raise Unreachable(f"the function {function} does not answer: {e}") from e
    if "FunctionError" in answer:
        raise Unreachable(str(result.get("errorMessage", "no reason given")))
    return result


class Schedules:
    """Schedules of EventBridge that the control plane enables and disables."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def switch(self, *, on: bool) -> None:
        """Enable or disable all schedules that are not in this state yet."""
        state = "ENABLED" if on else "DISABLED"
        for name in self._names:
            schedule = self._client.get_schedule(Name=name)
            if schedule["State"] != state:
                keys = ("Name", "ScheduleExpression", "FlexibleTimeWindow", "Target", "GroupName")
                arguments = {key: schedule[key] for key in keys if key in schedule}
                self._client.update_schedule(**arguments, State=state)
                log.info("the schedule %s is %s", name, state)

    @cached_property
    def _client(self) -> Any:
        return _client("scheduler")


def _client(service: str, read_timeout_s: float = 5) -> Any:
    import boto3
    from botocore.config import Config

    # A function in a network without NAT reaches AWS only by IPv6. Short timeouts leave time to answer.
    limits = Config(connect_timeout=2, read_timeout=read_timeout_s, retries={"max_attempts": 2})
    return boto3.client(service, config=limits)
