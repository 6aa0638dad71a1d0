"""Call the method of a search method that answers an event of the cluster."""

import logging
import uuid
from typing import Any, Callable, Dict, List, Mapping

from determined.searcher._operations import ExitedReason, Operation, Progress, Shutdown
from determined.searcher._search_method import SearcherState, SearchMethod

logger = logging.getLogger("determined.searcher")

_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_ENDED = ("STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR")
_Told = Mapping[str, Any]


def answer(method: SearchMethod, state: SearcherState, event: Mapping[str, Any]) -> List[Operation]:
    """Add an event to the state and ask the method what to do about it."""
    state.last_event_id = int(event["id"])
    kinds = [kind for kind in event if kind in _ANSWERS]
    if not kinds:
        logger.info("an event of a kind that this version does not know: %s", sorted(event))
        return []
    operations = list(_ANSWERS[kinds[0]](method, state, event[kinds[0]]))
    if state.experiment_ended or any(isinstance(o, Shutdown) for o in operations):
        return operations
    return [*operations, Progress(min(max(float(method.progress(state)), 0.0), 1.0))]


def _initial(method: SearchMethod, state: SearcherState, told: _Told) -> List[Operation]:
    logger.info("the search begins")
    return method.initial_operations(state)


def _created(method: SearchMethod, state: SearcherState, told: _Told) -> List[Operation]:
    request_id = uuid.UUID(told["requestId"])
    logger.info("trial %s was created", request_id)
    state.trials_created.add(request_id)
    state.trial_progress[request_id] = 0.0
    return method.on_trial_created(state, request_id)


def _validated(method: SearchMethod, state: SearcherState, told: _Told) -> List[Operation]:
    request_id, length = uuid.UUID(told["requestId"]), int(told["validateAfterLength"])
    metric = told["metric"]
    if isinstance(metric, str):
        metric = _NOT_FINITE.get(metric, metric)
    logger.info("trial %s: metric %s after %d", request_id, metric, length)
    state.trial_progress[request_id] = float(length)
    return method.on_validation_completed(state, request_id, metric, length)


def _progressed(method: SearchMethod, state: SearcherState, told: _Told) -> List[Operation]:
    state.trial_progress[uuid.UUID(told["requestId"])] = float(told["partialUnits"])
    return []


def _exited_early(method: SearchMethod, state: SearcherState, told: _Told) -> List[Operation]:
    request_id, reason = uuid.UUID(told["requestId"]), ExitedReason(told["exitedReason"])
    logger.info("trial %s exited early: %s", request_id, reason.name)
    if reason is not ExitedReason.USER_REQUESTED_STOP:
        state.failures.add(request_id)
    return method.on_trial_exited_early(state, request_id, reason)


def _closed(method: SearchMethod, state: SearcherState, told: _Told) -> List[Operation]:
    request_id = uuid.UUID(told["requestId"])
    logger.info("trial %s is closed", request_id)
    state.trials_closed.add(request_id)
    return method.on_trial_closed(state, request_id)


def _inactive(method: SearchMethod, state: SearcherState, told: _Told) -> List[Operation]:
    now = str(told["experimentState"])
    logger.info("experiment %s is %s", state.experiment_id, now[len("STATE_") :])
    if now in _ENDED:
        state.experiment_completed = now == "STATE_COMPLETED"
        state.experiment_failed = not state.experiment_completed
    return []


_ANSWERS: Dict[str, Callable[[SearchMethod, SearcherState, _Told], List[Operation]]] = {
    "initialOperations": _initial,
    "trialCreated": _created,
    "validationCompleted": _validated,
    "trialProgress": _progressed,
    "trialExitedEarly": _exited_early,
    "trialClosed": _closed,
    "experimentInactive": _inactive,
}
