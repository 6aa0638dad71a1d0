"""`custom`: a remote search method reads events and posts operations (facts §3.3, harnesses up to 0.37)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .actions import Action, Create, Shutdown, Stop, TrainTo
from .events import ExitReason, writable
from .method import NOTHING, Method, SearchFailed
from .metrics import read_time
from .rng import Rng

# The API never named the error: its unspecified value stands for it.
_REASONS = {
    ExitReason.INVALID_HP: "EXITED_REASON_INVALID_HP",
    ExitReason.INIT_INVALID_HP: "EXITED_REASON_INVALID_HP",
    ExitReason.ERRORED: "EXITED_REASON_UNSPECIFIED",
    ExitReason.USER_CANCELED: "EXITED_REASON_USER_CANCELED",
    ExitReason.USER_REQUESTED_STOP: "EXITED_REASON_USER_REQUESTED_STOP",
}


class RemoteSearch(Method):
    """Keeps the queue of unread events. Only the remote method creates, closes and shuts down."""

    decides_its_end: ClassVar[bool] = True

    def __init__(self, rng: Rng, metric: str, time_metric: str) -> None:
        self._rng = rng
        self._metric = metric
        self._time_metric = time_metric
        self._last_id = 0
        self._queue: list[dict[str, Any]] = []
        self._targets: dict[str, int | None] = {}  # of live trials; None while not asked to train
        self._created: set[str] = set()
        self._progress = 0.0

    def started(self) -> Sequence[Action]:
        return self._tell("initialOperations", {})

    def validated(self, request_id: str, metrics: Mapping[str, Any]) -> Sequence[Action]:
        if self._time_metric not in metrics or self._metric not in metrics:
            return NOTHING
        time = read_time(metrics, self._time_metric, request_id)
        return self.completed(request_id, time, metrics[self._metric])

    def completed(self, request_id: str, length: float, metric: Any) -> Sequence[Action]:
        target = self._targets.get(request_id)
        if target is None or length < target:
            return NOTHING
        self._targets[request_id] = None
        told = {"requestId": request_id, "metric": writable(metric)}
        told["validateAfterLength"] = str(target)
        return self._tell("validationCompleted", told)

    def invalid(self, request_id: str) -> Sequence[Action]:
        return self.exited_early(request_id, ExitReason.INVALID_HP)

    def exited_early(self, request_id: str, reason: str) -> Sequence[Action]:
        told = {"requestId": request_id, "exitedReason": _REASONS[ExitReason(reason)]}
        return self._tell("trialExitedEarly", told)

    def exited(self, request_id: str) -> Sequence[Action]:
        self._targets.pop(request_id, None)
        return self._tell("trialClosed", {"requestId": request_id})

    def inactivated(self, state: str) -> Sequence[Action]:
        return self._tell("experimentInactive", {"experimentState": state})

    def operated(
        self, operations: Sequence[Mapping[str, Any]], triggered_by: int | None
    ) -> Sequence[Action]:
        """Operations answer an event and everything before it: those leave the queue."""
        if triggered_by is not None:
            if not any(event["id"] == triggered_by for event in self._queue):
                return NOTHING  # a repeated request: its operations were carried out before
            self._queue = [event for event in self._queue if event["id"] > triggered_by]
        return [action for operation in operations for action in self._carry_out(operation)]

    def remote_events(self) -> Sequence[Mapping[str, Any]]:
        return tuple(self._queue)

    def progress(self) -> float:
        return self._progress

    def snapshot(self) -> dict[str, Any]:
        return {
            "last_id": self._last_id,
            "queue": list(self._queue),
            "targets": dict(self._targets),
            "created": sorted(self._created),
            "progress": self._progress,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._last_id = state["last_id"]
        self._queue = list(state["queue"])
        self._targets = dict(state["targets"])
        self._created = set(state["created"])
        self._progress = state["progress"]

    def _tell(self, kind: str, told: Mapping[str, Any]) -> Sequence[Action]:
        self._last_id += 1
        self._queue.append({"id": self._last_id, kind: dict(told)})
        return NOTHING

    def _carry_out(self, operation: Mapping[str, Any]) -> Sequence[Action]:
        for kind, details in operation.items():
            if kind == "createTrial":
                return self._create(details)
            if kind == "trialOperation":
                return self._train(details["validateAfter"])
            if kind == "closeTrial":
                return self._close(details["requestId"])
            if kind == "shutDown":
                return [Shutdown(bool(details.get("cancel")), bool(details.get("failure")))]
            if kind == "setSearcherProgress":
                self._progress = float(details["progress"])
                return NOTHING
        raise SearchFailed(
            f"searcher operation {sorted(operation)} is not known; the operations are createTrial, "
            "trialOperation, closeTrial, shutDown and setSearcherProgress"
        )

    def _create(self, details: Mapping[str, Any]) -> Sequence[Action]:
        request_id = details["requestId"]
        if request_id in self._created:
            return NOTHING
        self._created.add(request_id)
        self._targets[request_id] = None
        self._tell("trialCreated", {"requestId": request_id})
        hparams = details["hyperparams"]
        if isinstance(hparams, str):
            hparams = json.loads(hparams)
        return [Create(request_id, self._rng.seed31(), hparams)]

    def _close(self, request_id: str) -> Sequence[Action]:
        return [Stop(request_id)] if request_id in self._targets else NOTHING

    def _train(self, details: Mapping[str, Any]) -> Sequence[Action]:
        request_id, length = details["requestId"], int(details["length"])
        if request_id not in self._targets:
            return NOTHING  # closed in the meantime
        self._targets[request_id] = length
        return [TrainTo(request_id, length)]
