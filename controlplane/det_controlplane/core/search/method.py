"""The interface of a search method. `Search` keeps track of the trials, and the method makes the decisions."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from .actions import Action
from .ending import Ending
from .history import History

NOTHING: tuple[Action, ...] = ()
# The largest number of trials at the start of a search. One transaction creates all of them.
MOST_AT_ONCE = 10_000


class SearchFailed(Exception):
    """The search cannot continue. The message becomes the reason of a Fail action."""


class Method(ABC):
    """A search method. Events are passed on only for live trials that were not stopped and did not exit early."""

    # True if the search stays open without live trials, because a remote method decides its end.
    decides_its_end: ClassVar[bool] = False

    @abstractmethod
    def started(self) -> Sequence[Action]:
        """Create the first trials."""

    def validated(self, request_id: str, metrics: Mapping[str, Any]) -> Sequence[Action]:
        """Handle validation metrics of a live trial."""
        return NOTHING

    def completed(self, request_id: str, length: float, metric: Any) -> Sequence[Action]:
        """Handle a live trial's answer to TrainTo."""
        return NOTHING

    def progressed(self, request_id: str, fraction: float) -> Sequence[Action]:
        """Handle the progress of a live trial towards its length."""
        return NOTHING

    def invalid(self, request_id: str) -> Sequence[Action]:
        """Handle a live trial that rejected its hyperparameters. It is about to exit."""
        return NOTHING

    def exited_early(self, request_id: str, reason: str) -> Sequence[Action]:
        """Handle a live trial that failed, was canceled or asked to stop. It is about to exit."""
        return NOTHING

    def finished(self, request_id: str) -> Sequence[Action]:
        """Handle a live trial with a script that ended by itself."""
        return NOTHING

    def exited(self, request_id: str) -> Sequence[Action]:
        """Handle a closed trial. If its script ended by itself, `finished` was called before."""
        return NOTHING

    def operated(
        self, operations: Sequence[Mapping[str, Any]], triggered_by: int | None
    ) -> Sequence[Action]:
        """Handle operations of a remote search method. Other methods ignore them."""
        return NOTHING

    def inactivated(self, state: str) -> Sequence[Action]:
        """Handle that the experiment was paused or is ending."""
        return NOTHING

    def remote_events(self) -> Sequence[Mapping[str, Any]]:
        """Return the events that a remote search method has not answered yet, in the JSON of the API."""
        return ()

    def watched(self) -> Sequence[History]:
        """Start to record decisions at rungs and return the records by bracket. Methods without rungs have none."""
        return ()

    @property
    def has_model(self) -> bool:
        """Return whether another version of the program may decide differently after the same events."""
        return False

    def expected_gain(self) -> float | None:
        """Return the expected improvement of the metric by another full training, if the method has a model."""
        return None

    def ending(self) -> Ending | None:
        """Return why the method creates no more trials before `max_trials`, or None."""
        return None

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON for `restore`."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a snapshot of a method with the same configuration."""

    def progress(self) -> float | None:
        """Return the progress from 0 to 1, or None if it is the mean progress of all planned trials."""
        return None

    def uncreated(self) -> int:
        """Return the number of planned trials that do not exist yet."""
        return 0


WORST = (
    sys.float_info.max
)  # the loss of a failed trial: worse than every number, better than infinity
LISTED_METRICS = 20  # metric names in a message
_SPELLED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def read_loss(metrics: Mapping[str, Any], name: str, sign: float, request_id: str) -> float:
    """Return the searcher metric as a loss: smaller is better, and NaN becomes infinity."""
    value = metrics.get(name)
    if type(value) is float:
        return value * sign if value == value else math.inf
    return as_loss(value, name, sign, request_id, metrics)


def as_loss(
    value: Any, name: str, sign: float, request_id: str, reported: Collection[str] = ()
) -> float:
    """Return a value as a loss: smaller is better, and NaN becomes infinity. `reported` are all names of the report."""
    loss = _number(value, name, request_id, reported) * sign
    return math.inf if math.isnan(loss) else loss


def read_time(metrics: Mapping[str, Any], name: str, request_id: str) -> float:
    """Return the time metric of the same report. Raises SearchFailed if it is not a number."""
    value = metrics.get(name)
    if type(value) is int:
        return value
    time = _number(value, name, request_id, metrics)
    if math.isnan(time):
        raise SearchFailed(
            f"trial {request_id}: time metric {name!r} is NaN; report how far training has come"
        )
    return time


def _number(value: Any, name: str, request_id: str, reported: Collection[str]) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value in _SPELLED:
        return _SPELLED[value]
    if value is None:
        raise SearchFailed(f"trial {request_id}: {not_reported(name, reported)}")
    raise SearchFailed(
        f"trial {request_id}: metric {name!r} is {value!r}; report a number with every validation"
    )


def not_reported(name: str, reported: Collection[str]) -> str:
    """Return the message for a metric of the searcher that a trial did not report."""
    import difflib  # only failures need it

    names = sorted(reported)
    name_list = ", ".join(names[:LISTED_METRICS]) + (", …" if len(names) > LISTED_METRICS else "")
    similar = difflib.get_close_matches(name, names, n=1)
    guess = f"; did you mean {similar[0]!r}?" if similar else ";"
    return (
        f"metric {name!r} was not reported; reported: {name_list or 'none'}{guess} "
        f"report it with every validation, or change searcher.metric or searcher.time_metric"
    )
