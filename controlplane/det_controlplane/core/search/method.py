"""The interface of a search method. `Search` keeps track of the trials, and the method makes the decisions."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .actions import Action
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

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON for `restore`."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a snapshot of a method with the same configuration."""

    def progress(self) -> float | None:
        """Return the progress from 0 to 1, or None if it is the mean progress of the trials."""
        return None
