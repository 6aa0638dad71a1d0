"""Record what simulated programs experienced, to check the database against."""

from dataclasses import dataclass, field

from det_controlplane.testing.world.task_ledger import TaskLedger


@dataclass(slots=True)
class Run:
    """An allocation of a trial, as its program experienced it."""

    allocation_id: str
    trial_id: int
    run_id: int
    crashed: bool = False  # by itself: what the user's retries are for
    ended_well: bool = False  # exit 0 without having been told to stop
    chief_exit: int | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    trial_id: int
    run_id: int
    group: str
    steps: int
    loss: float


@dataclass(slots=True)
class Ledger:
    runs: dict[str, Run] = field(default_factory=dict)
    metrics: list[Metric] = field(default_factory=list)
    validations: set[tuple[int, float]] = field(default_factory=set)  # sent: steps and loss
    checkpoints: dict[str, int] = field(default_factory=dict)  # answered, by uuid: the trial
    # Uploads that began, by uuid: the trial.
    announced: dict[str, int] = field(default_factory=dict)
    collected: set[str] = field(default_factory=set)  # checkpoints whose files were deleted
    # Trial: the run whose log says that no retry helps.
    given_up: dict[int, int] = field(default_factory=dict)
    early_exits: set[int] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)  # containers whose exit was acknowledged
    reported: set[str] = field(default_factory=set)  # containers that were reported beyond ASSIGNED
    experiments: set[int] = field(default_factory=set)
    ending: set[int] = field(default_factory=set)  # somebody asked for cancel or kill
    deleting: set[int] = field(default_factory=set)  # somebody asked for it
    continued: set[int] = field(default_factory=set)
    pull_failures: dict[int, int] = field(default_factory=dict)
    tasks: TaskLedger = field(default_factory=TaskLedger)

    def run_of(self, allocation_id: str, trial_id: int, run_id: int) -> Run:
        return self.runs.setdefault(allocation_id, Run(allocation_id, trial_id, run_id))

    def crashes(self) -> dict[int, int]:
        """Count how often the user's code failed, by trial."""
        found: dict[int, int] = {}
        for run in self.runs.values():
            found[run.trial_id] = found.get(run.trial_id, 0) + run.crashed
        return found
