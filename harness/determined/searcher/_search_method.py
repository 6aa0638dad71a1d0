"""The interface of a search method, and the state that a runner keeps for it."""

import abc
import json
import pathlib
import uuid
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple

from determined.searcher._operations import ExitedReason, Operation

STATE_FILE = "searcher_state.json"


class SearcherState:
    """The state after all events so far. The runner updates it, and the search method reads it."""

    def __init__(self) -> None:
        self.experiment_id: Optional[int] = None
        self.trials_created: Set[uuid.UUID] = set()
        self.trials_closed: Set[uuid.UUID] = set()
        self.failures: Set[uuid.UUID] = set()
        self.trial_progress: Dict[uuid.UUID, float] = {}
        self.last_event_id = 0
        self.experiment_completed = False
        self.experiment_failed = False

    @property
    def experiment_ended(self) -> bool:
        return self.experiment_completed or self.experiment_failed

    def to_dict(self) -> Dict[str, Any]:
        return {
            "trials_created": sorted(map(str, self.trials_created)),
            "trials_closed": sorted(map(str, self.trials_closed)),
            "failures": sorted(map(str, self.failures)),
            "trial_progress": {str(k): v for k, v in self.trial_progress.items()},
            "last_event_id": self.last_event_id,
            "experiment_completed": self.experiment_completed,
            "experiment_failed": self.experiment_failed,
        }

    def from_dict(self, saved: Mapping[str, Any]) -> None:
        self.trials_created = {uuid.UUID(i) for i in saved["trials_created"]}
        self.trials_closed = {uuid.UUID(i) for i in saved["trials_closed"]}
        self.failures = {uuid.UUID(i) for i in saved["failures"]}
        self.trial_progress = {uuid.UUID(k): v for k, v in saved["trial_progress"].items()}
        self.last_event_id = saved["last_event_id"]
        self.experiment_completed = saved["experiment_completed"]
        self.experiment_failed = saved["experiment_failed"]


class SearchMethod(abc.ABC):
    """Answers each event with operations. Subclasses save and load their own state."""

    @abc.abstractmethod
    def initial_operations(self, searcher_state: SearcherState) -> List[Operation]:
        """Return the first operations of the experiment."""

    @abc.abstractmethod
    def on_trial_created(
        self, searcher_state: SearcherState, request_id: uuid.UUID
    ) -> List[Operation]:
        """Return operations after a trial of a `Create` operation was created."""

    @abc.abstractmethod
    def on_validation_completed(
        self, searcher_state: SearcherState, request_id: uuid.UUID, metric: Any, train_length: int
    ) -> List[Operation]:
        """Return operations after a trial finished a `ValidateAfter` operation."""

    @abc.abstractmethod
    def on_trial_closed(
        self, searcher_state: SearcherState, request_id: uuid.UUID
    ) -> List[Operation]:
        """Return operations after a trial ended permanently, including early exits."""

    @abc.abstractmethod
    def on_trial_exited_early(
        self, searcher_state: SearcherState, request_id: uuid.UUID, exited_reason: ExitedReason
    ) -> List[Operation]:
        """Return operations after a trial failed permanently, was killed by a user, or had invalid hyperparameters."""

    @abc.abstractmethod
    def progress(self, searcher_state: SearcherState) -> float:
        """Return the progress of the search, from 0 to 1."""

    def save_method_state(self, path: pathlib.Path) -> None:  # noqa: B027 - a method may have no state
        """Write the method's own state into this directory."""

    def load_method_state(self, path: pathlib.Path) -> None:  # noqa: B027
        """Load the state that `save_method_state` wrote."""

    def save(
        self, searcher_state: SearcherState, path: pathlib.Path, *, experiment_id: int
    ) -> None:
        """Save everything that `load` needs to continue the search."""
        path.mkdir(parents=True, exist_ok=True)
        saved = {"experiment_id": experiment_id, **searcher_state.to_dict()}
        (path / STATE_FILE).write_text(json.dumps(saved))
        self.save_method_state(path)

    def load(self, path: pathlib.Path) -> Tuple[SearcherState, int]:
        """Load the saved state, and the id of its experiment."""
        saved = json.loads((path / STATE_FILE).read_text())
        state = SearcherState()
        state.from_dict(saved)
        state.experiment_id = int(saved["experiment_id"])
        self.load_method_state(path)
        return state, state.experiment_id
