"""The contract of a search method: `Search` keeps the books, a method only decides."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .actions import Action
from .history import History

NOTHING: tuple[Action, ...] = ()
# Trials with which a search begins, whatever its configuration: one transaction creates them.
MOST_AT_ONCE = 10_000


class SearchFailed(Exception):
    """The search cannot go on; the message becomes the reason of a Fail action."""


class Method(ABC):
    """Decides a search. Trials passed in are live, and neither stopped nor exited early before."""

    # True where fewer creations than closings must not end the search (a remote method decides).
    decides_its_end: ClassVar[bool] = False

    @abstractmethod
    def started(self) -> Sequence[Action]:
        """Create the first trials."""

    def validated(self, request_id: str, metrics: Mapping[str, Any]) -> Sequence[Action]:
        """Take metrics of a live trial."""
        return NOTHING

    def completed(self, request_id: str, length: float, metric: Any) -> Sequence[Action]:
        """Handle that a live trial answered TrainTo."""
        return NOTHING

    def progressed(self, request_id: str, fraction: float) -> Sequence[Action]:
        """Handle how far a live trial is on the way to its length."""
        return NOTHING

    def invalid(self, request_id: str) -> Sequence[Action]:
        """Handle that a live trial found its hyperparameters invalid; it is about to exit."""
        return NOTHING

    def exited_early(self, request_id: str, reason: str) -> Sequence[Action]:
        """Handle that a live trial failed, was canceled or asked to stop; it is about to exit."""
        return NOTHING

    def finished(self, request_id: str) -> Sequence[Action]:
        """Handle that a live trial's own script came to its end."""
        return NOTHING

    def exited(self, request_id: str) -> Sequence[Action]:
        """Handle that a trial is closed, for whatever reason; called after `finished` where that applies."""
        return NOTHING

    def operated(
        self, operations: Sequence[Mapping[str, Any]], triggered_by: int | None
    ) -> Sequence[Action]:
        """Take the operations that a remote search method posted; other methods get none."""
        return NOTHING

    def inactivated(self, state: str) -> Sequence[Action]:
        """Handle that the experiment was paused or is ending."""
        return NOTHING

    def remote_events(self) -> Sequence[Mapping[str, Any]]:
        """Return the events that a remote search method has not answered yet, in the JSON of the API."""
        return ()

    def watched(self) -> Sequence[History]:
        """Keep from now on what is decided at rungs, by bracket; methods without rungs have none."""
        return ()

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """Return JSON from which `restore` continues."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a snapshot of a method built from the same configuration."""

    def progress(self) -> float | None:
        """Return a number between 0 and 1, or None where the mean over the trials tells it."""
        return None
