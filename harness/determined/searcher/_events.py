"""Dispatch events of the cluster to the methods of a search method."""

import logging
import uuid
from typing import Any, Callable, Dict, List, Mapping

from determined.searcher._operations import ExitedReason, Operation, Progress, Shutdown
from determined.searcher._search_method import SearcherState, SearchMethod

logger = logging.getLogger("determined.searcher")

_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_ENDED = ("STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR")
_Event = Mapping[str, Any]


def handle(method: SearchMethod, state: SearcherState, event: Mapping[str, Any]) -> List[Operation]:
    """Update the state with an event, and return the method's operations for it."""
    state.last_event_id = int(event["id"])
    kinds = [kind for kind in event if kind in _HANDLERS]
    if not kinds:
        logger.info("ignoring an event of an unknown kind: %s", sorted(event))
        return []
    operations = list(_HANDLERS[kinds[0]](method, state, event[kinds[0]]))
    if state.experiment_ended or any(isinstance(o, Shutdown) for o in operations):
        return operations
    return [*operations, Progress(min(max(float(method.progress(state)), 0.0), 1.0))]


def _initial(method: SearchMethod, state: SearcherState, event: _Event) -> List[Operation]:
    logger.info("the search begins")
    return method.initial_operations(state)


def _handle_created(method: SearchMethod, state: SearcherState, event: _Event) -> List[Operation]:
    request_id = uuid.UUID(event["requestId"])
    logger.info("trial %s was created", request_id)
    state.trials_created.add(request_id)
    state.trial_progress[request_id] = 0.0
    return method.on_trial_created(state, request_id)


def _handle_validated(method: SearchMethod, state: SearcherState, event: _Event) -> List[Operation]:
    request_id, length = uuid.UUID(event["requestId"]), int(event["validateAfterLength"])
    metric = event["metric"]
    if isinstance(metric, str):
        metric = _NOT_FINITE.get(metric, metric)
    logger.info("trial %s: metric %s after %d", request_id, metric, length)
    state.trial_progress[request_id] = float(length)
    return method.on_validation_completed(state, request_id, metric, length)


def _handle_progressed(
    method: SearchMethod, state: SearcherState, event: _Event
) -> List[Operation]:
    state.trial_progress[uuid.UUID(event["requestId"])] = float(event["partialUnits"])
    return []


def _exited_early(method: SearchMethod, state: SearcherState, event: _Event) -> List[Operation]:
    request_id, reason = uuid.UUID(event["requestId"]), ExitedReason(event["exitedReason"])
    logger.info("trial %s exited early: %s", request_id, reason.name)
    if reason is not ExitedReason.USER_REQUESTED_STOP:
        state.failures.add(request_id)
    return method.on_trial_exited_early(state, request_id, reason)


def _handle_closed(method: SearchMethod, state: SearcherState, event: _Event) -> List[Operation]:
    request_id = uuid.UUID(event["requestId"])
    logger.info("trial %s is closed", request_id)
    state.trials_closed.add(request_id)
    return method.on_trial_closed(state, request_id)


def _inactive(method: SearchMethod, state: SearcherState, event: _Event) -> List[Operation]:
    now = str(event["experimentState"])
    logger.info("experiment %s is %s", state.experiment_id, now[len("STATE_") :])
    if now in _ENDED:
        state.experiment_completed = now == "STATE_COMPLETED"
        state.experiment_failed = not state.experiment_completed
    return []


_HANDLERS: Dict[str, Callable[[SearchMethod, SearcherState, _Event], List[Operation]]] = {
    "initialOperations": _initial,
    "trialCreated": _handle_created,
    "validationCompleted": _handle_validated,
    "trialProgress": _handle_progressed,
    "trialExitedEarly": _exited_early,
    "trialClosed": _handle_closed,
    "experimentInactive": _inactive,
}
