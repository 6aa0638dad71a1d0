"""Turn events into actions. `Search` keeps track of the trials and calls the method for decisions."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .actions import Action, Create, Fail, Shutdown, Stop
from .ending import Ending, EndReason, ending_from_json
from .events import (
    Continued,
    CostExceeded,
    CustomOperations,
    Event,
    Exited,
    ExitedEarly,
    ExitReason,
    Inactivated,
    OperationCompleted,
    Progressed,
    Started,
    Validated,
)
from .method import NOTHING, Method, SearchFailed
from .rng import Rng

_VERSION = 1
_INVALID = (ExitReason.INVALID_HP, ExitReason.INIT_INVALID_HP)

# The status of a live trial.
_UNKNOWN, _RUNNING, _STOPPED, _EXITED_EARLY, _FOUND_INVALID = range(-1, 4)


class Search:
    """The state of an experiment's search. `fold` is deterministic and changes the state in place."""

    def __init__(
        self,
        method: Method,
        rng: Rng,
        metric_names: frozenset[str] = frozenset(),
        invalid_limit: float = math.inf,
    ) -> None:
        self.method = method
        # The metrics that `fold` reads. A caller may store only these with a Validated event.
        self.metric_names = metric_names
        self._rng = rng
        self._invalid_limit = invalid_limit
        self._live: dict[str, int] = {}
        self._requested = 0
        self._closed = 0
        self._failures = 0
        self._cancels = 0
        self._invalid = 0
        self._started = False
        self._over = False
        self._cost_ending: Ending | None = None
        self._folds: dict[type[Any], Callable[[Any], Sequence[Action]]] = {
            Started: self._start,
            Validated: self._validate,
            OperationCompleted: self._complete,
            ExitedEarly: self._exit_early,
            Exited: self._exit,
            CustomOperations: self._operate,
            Progressed: self._progressed,
            Inactivated: self._inactivate,
            Continued: self._continue,
            CostExceeded: self._exceed_cost,
        }

    @property
    def over(self) -> bool:
        """Return whether Shutdown or Fail was returned. Later events have no effect."""
        return self._over

    @property
    def ending(self) -> Ending | None:
        """Return why the search ends before its last trial, or None."""
        return self._cost_ending or self.method.ending()

    @property
    def requested(self) -> int:
        """Return the number of created trials, including replacements."""
        return self._requested

    def fold(self, event: Event) -> tuple[Action, ...]:
        """Return the actions for an event. Repeated events and unknown trials have no actions."""
        if self._over and not isinstance(event, Continued):
            return NOTHING
        try:
            actions = self._folds[type(event)](event)
        except SearchFailed as error:
            self._over = True
            return (Fail(str(error), getattr(event, "request_id", None)),)
        return self._record(actions) if actions else NOTHING

    def remote_events(self) -> Sequence[Mapping[str, Any]]:
        """Return the events that a remote search method (`custom`) has not answered yet, oldest first."""
        return self.method.remote_events()

    def progress(self, fractions: Mapping[str, float]) -> float:
        """Return the progress from 0 to 1. `fractions` has the reported progress of live trials by request id."""
        progress = self.method.progress()
        if progress is None:
            progress = self._mean_progress(fractions)
        return progress if math.isfinite(progress) else 0.0

    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON. Its size depends on live trials and rung entries, not on the number of events."""
        return {
            "version": _VERSION,
            "rng": self._rng.snapshot(),
            "live": dict(self._live),
            "requested": self._requested,
            "closed": self._closed,
            "failures": self._failures,
            "cancels": self._cancels,
            "invalid": self._invalid,
            "started": self._started,
            "over": self._over,
            "cost_ending": None if self._cost_ending is None else self._cost_ending.to_json(),
            "method": self.method.snapshot(),
        }

    def load(self, snapshot: Mapping[str, Any]) -> None:
        """Restore a snapshot, except the random generator, which the caller restores."""
        self._live = dict(snapshot["live"])
        self._requested = snapshot["requested"]
        self._closed = snapshot["closed"]
        self._failures = snapshot["failures"]
        self._cancels = snapshot["cancels"]
        self._invalid = snapshot["invalid"]
        self._started = snapshot["started"]
        self._over = snapshot["over"]
        self._cost_ending = ending_from_json(snapshot.get("cost_ending"))
        self.method.restore(snapshot["method"])

    def _start(self, event: Started) -> Sequence[Action]:
        if self._started:
            return NOTHING
        self._started = True
        return self.method.started()

    def _validate(self, event: Validated) -> Sequence[Action]:
        if self._live.get(event.request_id) != _RUNNING:
            return NOTHING
        return self.method.validated(event.request_id, event.metrics)

    def _complete(self, event: OperationCompleted) -> Sequence[Action]:
        if self._live.get(event.request_id) != _RUNNING:
            return NOTHING
        return self.method.completed(event.request_id, event.length, event.metric)

    def _exit_early(self, event: ExitedEarly) -> Sequence[Action]:
        # The search stopped this trial, so its exit does not count as a failure.
        if self._live.get(event.request_id) != _RUNNING:
            return NOTHING
        if event.reason in _INVALID:
            return self._found_invalid(event.request_id)
        self._live[event.request_id] = _EXITED_EARLY
        self._failures += event.reason == ExitReason.ERRORED
        self._cancels += event.reason == ExitReason.USER_CANCELED
        return self.method.exited_early(event.request_id, event.reason)

    def _found_invalid(self, request_id: str) -> Sequence[Action]:
        self._live[request_id] = _FOUND_INVALID
        self._invalid += 1
        if self._invalid > self._invalid_limit:
            if self._invalid_limit == 0:
                raise SearchFailed(
                    f"trial {request_id} reported invalid hyperparameters, and every trial of this search has the same "
                    "ones: change them"
                )
            raise SearchFailed(
                f"{self._invalid} trials reported invalid hyperparameters; each was replaced, and "
                "replacing more would only cost time: narrow the hyperparameter space"
            )
        return self.method.invalid(request_id)

    def _exit(self, event: Exited) -> Sequence[Action]:
        status = self._live.pop(event.request_id, _UNKNOWN)
        if status == _UNKNOWN:
            return NOTHING
        self._closed += 1
        if self._cost_ending is not None:
            actions: Sequence[Action] = NOTHING  # the search creates no more trials
        elif status == _RUNNING:
            last_actions = self.method.finished(event.request_id)
            actions = [*last_actions, *self.method.exited(event.request_id)]
        else:
            actions = self.method.exited(event.request_id)
        if self._closed == self._requested and not any(type(a) is Create for a in actions):
            return [*actions, *self._end()]
        return actions

    def _end(self) -> Sequence[Action]:
        if self.method.decides_its_end:
            return NOTHING
        failure = self._failures >= self._requested
        cancel = self._cancels >= self._requested
        return [Shutdown(cancel=cancel and not failure, failure=failure)]

    def _operate(self, event: CustomOperations) -> Sequence[Action]:
        return self.method.operated(event.operations, event.triggered_by)

    def _progressed(self, event: Progressed) -> Sequence[Action]:
        if self._live.get(event.request_id) != _RUNNING:
            return NOTHING
        return self.method.progressed(event.request_id, event.fraction)

    def _inactivate(self, event: Inactivated) -> Sequence[Action]:
        return self.method.inactivated(event.state)

    def _exceed_cost(self, event: CostExceeded) -> Sequence[Action]:
        """Stop all trials with their checkpoints. The search completes after their exits."""
        if self._cost_ending is not None:
            return NOTHING
        self._cost_ending = Ending(EndReason.COST_ABOVE, event.cost_usd, event.limit_usd)
        running = [rid for rid, status in self._live.items() if status == _RUNNING]
        return [Stop(request_id, early=True) for request_id in running]

    def _continue(self, event: Continued) -> Sequence[Action]:
        """Continue an ended experiment. Canceled trials are still live here, because their exits were not folded."""
        self._over = False
        self._cost_ending = None
        self._failures = self._cancels = 0
        again = set(event.request_ids)
        absent_ids = [request_id for request_id in self._live if request_id not in again]
        for request_id in event.request_ids:
            self._closed -= request_id not in self._live
            self._live[request_id] = _RUNNING
        return [action for request_id in absent_ids for action in self._exit(Exited(request_id))]

    def _record(self, actions: Sequence[Action]) -> tuple[Action, ...]:
        live = self._live
        for action in actions:
            if type(action) is Create:
                live[action.request_id] = _RUNNING
                self._requested += 1
            elif type(action) is Stop:
                if live.get(action.request_id) == _RUNNING:
                    live[action.request_id] = _STOPPED
            elif type(action) is Shutdown or type(action) is Fail:
                self._over = True
        return tuple(actions)

    def _mean_progress(self, fractions: Mapping[str, float]) -> float:
        trial_ids = [rid for rid, status in self._live.items() if status != _FOUND_INVALID]
        live_invalid = len(self._live) - len(trial_ids)
        closed = self._closed - (self._invalid - live_invalid)
        total = closed + sum(fractions.get(request_id, 0.0) for request_id in trial_ids)
        uncreated = self.method.uncreated() if self._started else 0
        return total / max(closed + len(trial_ids) + uncreated, 1)
