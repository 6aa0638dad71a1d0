"""Record the experience of simulated programs, for comparison with the database."""

from dataclasses import dataclass, field

from tests.world.task_ledger import TaskLedger


@dataclass(slots=True)
class Run:
    """An allocation of a trial, as its program experienced it."""

    key: str  # of its allocation: the id and the key of its containers
    trial_id: int
    run_id: int
    started_from: str = ""  # the checkpoint
    reported: list[tuple[int, float]] = field(default_factory=list)  # steps and losses, in order
    gave_up: bool = False  # it reported that its hyperparameters are invalid
    crashed: bool = False  # because of its own code, which counts against max_restarts
    ended_well: bool = False  # exit 0 without a request to stop
    chief_exit: int | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    trial_id: int
    run_id: int
    group: str
    steps: int
    loss: float


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint, by the run that saved it."""

    run: Run
    steps: int


@dataclass(slots=True)
class Ledger:
    runs: dict[str, Run] = field(default_factory=dict)
    metrics: list[Metric] = field(default_factory=list)
    validations: set[tuple[int, float]] = field(default_factory=set)  # sent: steps and loss
    checkpoints: dict[str, int] = field(default_factory=dict)  # answered, by uuid: the trial
    saved: dict[str, Saved] = field(default_factory=dict)  # sent, by uuid
    # Uploads that began, by uuid: the trial.
    announced: dict[str, int] = field(default_factory=dict)
    collected: set[str] = field(default_factory=set)  # checkpoints with deleted files
    # Trials with the run that logged that a retry does not help.
    given_up: dict[int, int] = field(default_factory=dict)
    early_exits: set[int] = field(default_factory=set)  # answered
    # Containers that ended by themselves, on agents that list their containers when they join again.
    ended: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)  # containers with acknowledged exits
    reported: set[str] = field(default_factory=set)  # containers that were reported beyond ASSIGNED
    experiments: set[int] = field(default_factory=set)
    ending: set[int] = field(default_factory=set)  # somebody asked for cancel or kill
    deleting: set[int] = field(default_factory=set)  # somebody asked for it
    continued: set[int] = field(default_factory=set)
    pull_failures: dict[int, int] = field(default_factory=dict)
    tasks: TaskLedger = field(default_factory=TaskLedger)

    def run_of(self, key: str, trial_id: int, run_id: int) -> Run:
        return self.runs.setdefault(key, Run(key, trial_id, run_id))

    def reported_before(self, checkpoint: str, trial_id: int) -> dict[int, float]:
        """Return the steps and losses that a trial's runs had reported when this checkpoint was saved."""
        checkpoint_saved = self.saved.get(checkpoint)
        if checkpoint_saved is None or checkpoint_saved.run.trial_id != trial_id:
            return {}  # the trial began with this checkpoint, or without one
        before = self.reported_before(checkpoint_saved.run.started_from, trial_id)
        return before | {
            s: loss for s, loss in checkpoint_saved.run.reported if s <= checkpoint_saved.steps
        }

    def crashes(self) -> dict[int, int]:
        """Count how often the user's code failed, by trial."""
        counts: dict[int, int] = {}
        for run in self.runs.values():
            counts[run.trial_id] = counts.get(run.trial_id, 0) + run.crashed
        return counts
