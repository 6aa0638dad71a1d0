"""`custom`: a remote search method reads events and posts operations, as harnesses up to version 0.37 do.

See docs/reference/searcher.md."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .actions import Action, Create, Fail, Park, Rest, Shutdown, Stop, TrainTo
from .events import ExitReason, writable
from .method import NOTHING, Method, SearchFailed, read_time
from .rng import Rng

# The API has no name for an error, so its unspecified value is used.
_REASONS = {
    ExitReason.INVALID_HP: "EXITED_REASON_INVALID_HP",
    ExitReason.INIT_INVALID_HP: "EXITED_REASON_INVALID_HP",
    ExitReason.ERRORED: "EXITED_REASON_UNSPECIFIED",
    ExitReason.USER_CANCELED: "EXITED_REASON_USER_CANCELED",
    ExitReason.USER_REQUESTED_STOP: "EXITED_REASON_USER_REQUESTED_STOP",
}


class RemoteSearch(Method):
    """Keep the queue of unread events. Only the remote method creates and closes trials and ends the search."""

    decides_its_end: ClassVar[bool] = True

    def __init__(self, rng: Rng, metric: str, time_metric: str) -> None:
        self._rng = rng
        self._metric = metric
        self._time_metric = time_metric
        self._last_id = 0
        self._answered = 0  # the newest event that was answered with operations
        self._queue: list[dict[str, Any]] = []
        self._targets: dict[str, int | None] = {}  # of live trials; None without a training length
        self._closing: set[str] = set()  # trials that close when they reach their training length
        self._created: set[str] = set()
        self._progress = 0.0

    @property
    def last_id(self) -> int:
        """Return the id of the newest event, which is the highest id."""
        return self._last_id

    def created(self, request_id: str) -> bool:
        return request_id in self._created

    def started(self) -> Sequence[Action]:
        return self._enqueue("initialOperations", {})

    def validated(self, request_id: str, metrics: Mapping[str, Any]) -> Sequence[Action]:
        if self._time_metric not in metrics or self._metric not in metrics:
            return NOTHING
        time = read_time(metrics, self._time_metric, request_id)
        # A script that reports metrics trains until it is stopped, so the trial parks.
        return self._reached(request_id, time, metrics[self._metric], Park(request_id))

    def completed(self, request_id: str, length: float, metric: Any) -> Sequence[Action]:
        # A script that answers operations asks for the next operation, so the trial only rests.
        return self._reached(request_id, length, metric, Rest(request_id))

    def progressed(self, request_id: str, fraction: float) -> Sequence[Action]:
        target = self._targets.get(request_id)
        if target is None:
            return NOTHING
        self._forget("trialProgress", request_id)
        details = {"requestId": request_id, "partialUnits": fraction * target}
        return self._enqueue("trialProgress", details)

    def invalid(self, request_id: str) -> Sequence[Action]:
        return self.exited_early(request_id, ExitReason.INVALID_HP)

    def exited_early(self, request_id: str, reason: str) -> Sequence[Action]:
        details = {"requestId": request_id, "exitedReason": _REASONS[ExitReason(reason)]}
        return self._enqueue("trialExitedEarly", details)

    def exited(self, request_id: str) -> Sequence[Action]:
        self._targets.pop(request_id, None)
        self._closing.discard(request_id)
        self._forget("trialProgress", request_id)
        return self._enqueue("trialClosed", {"requestId": request_id})

    def inactivated(self, state: str) -> Sequence[Action]:
        self._queue = [event for event in self._queue if "experimentInactive" not in event]
        return self._enqueue("experimentInactive", {"experimentState": state})

    def operated(
        self, operations: Sequence[Mapping[str, Any]], triggered_by: int | None
    ) -> Sequence[Action]:
        """Execute operations. They answer an event, which leaves the queue together with all earlier events."""
        if triggered_by is not None:
            if triggered_by <= self._answered:
                return NOTHING  # a repeated request, which was executed before
            self._answered = triggered_by
            self._queue = [event for event in self._queue if event["id"] > triggered_by]
        return self._resting([a for o in operations for a in self._carry_out(o)])

    def remote_events(self) -> Sequence[Mapping[str, Any]]:
        return tuple(self._queue)

    def progress(self) -> float:
        return self._progress

    def snapshot(self) -> dict[str, Any]:
        return {
            "last_id": self._last_id,
            "answered": self._answered,
            "queue": list(self._queue),
            "targets": dict(self._targets),
            "closing": sorted(self._closing),
            "created": sorted(self._created),
            "progress": self._progress,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._last_id = state["last_id"]
        self._answered = state["answered"]
        self._queue = list(state["queue"])
        self._targets = dict(state["targets"])
        self._closing = set(state["closing"])
        self._created = set(state["created"])
        self._progress = state["progress"]

    def _enqueue(self, kind: str, details: Mapping[str, Any]) -> Sequence[Action]:
        self._last_id += 1
        self._queue.append({"id": self._last_id, kind: dict(details)})
        return NOTHING

    def _forget(self, kind: str, request_id: str) -> None:
        """Remove the queued events of a kind about a trial, because a newer event replaces them."""
        self._queue = [e for e in self._queue if e.get(kind, {}).get("requestId") != request_id]

    def _reached(
        self, request_id: str, length: float, metric: Any, then: Park | Rest
    ) -> Sequence[Action]:
        if request_id not in self._targets:
            return NOTHING
        target = self._targets[request_id]
        if target is None:
            return [then] if type(then) is Park else NOTHING
        if length < target:
            return NOTHING
        self._targets[request_id] = None
        self._forget("trialProgress", request_id)
        details = {"requestId": request_id, "metric": writable(metric)}
        details["validateAfterLength"] = str(target)
        self._enqueue("validationCompleted", details)
        return [Stop(request_id) if request_id in self._closing else then]

    def _carry_out(self, operation: Mapping[str, Any]) -> Sequence[Action]:
        for kind, details in operation.items():
            if kind == "createTrial":
                return self._create(details)
            if kind == "trialOperation":
                return self._train(details["validateAfter"])
            if kind == "closeTrial":
                return self._close(details["requestId"])
            if kind == "shutDown":
                return [self._shut_down(details)]
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
        self._enqueue("trialCreated", {"requestId": request_id})
        hparams = details["hyperparams"]
        if isinstance(hparams, str):
            hparams = json.loads(hparams)
        checkpoint = details.get("checkpointUuid")
        return [Create(request_id, self._rng.seed31(), hparams, checkpoint=checkpoint)]

    def _resting(self, actions: list[Action]) -> list[Action]:
        """Add Rest for new trials without a training length. They need no slots yet."""
        idle = [
            Rest(action.request_id)
            for action in actions
            if type(action) is Create and self._targets[action.request_id] is None
        ]
        return [*actions, *idle]

    def _close(self, request_id: str) -> Sequence[Action]:
        """Close a trial after its training. Remote methods often post create, train and close together."""
        if request_id not in self._targets or request_id in self._closing:
            return NOTHING
        self._closing.add(request_id)
        return NOTHING if self._targets[request_id] is not None else [Stop(request_id)]

    def _train(self, details: Mapping[str, Any]) -> Sequence[Action]:
        request_id, length = details["requestId"], int(details["length"])
        if request_id not in self._targets or request_id in self._closing:
            return NOTHING  # closed in the meantime
        self._targets[request_id] = length
        return [TrainTo(request_id, length)]

    def _shut_down(self, details: Mapping[str, Any]) -> Action:
        if details.get("failure"):
            return Fail("the remote search method ended the search as failed")
        return Shutdown(bool(details.get("cancel")))
