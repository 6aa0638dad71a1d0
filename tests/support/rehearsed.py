"""A cluster, its cloud and its deployment as a rehearsal sees them, in memory. Time passes when the rehearsal waits.

It trains two steps whenever somebody waits, on one machine for each experiment. Faults are attributes that a test sets.
It leaves out changing prices and experiments with several trials.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from det_cli.deployment.rehearsal.cluster_client import (
    Checkpoint,
    ClusterClient,
    Machine,
    Metric,
    Progress,
    Run,
    Trial,
)
from det_cli.deployment.rehearsal.plan import Rates, make, parse_steps
from det_cli.deployment.rehearsal.records import Outcome, Report
from det_cli.deployment.rehearsal.runner import Rehearsal
from det_cli.deployment.rehearsal.stage import Clock, DatabaseState, Stage
from det_cli.deployment.rehearsal.training import train as training

START = datetime(2026, 11, 28, 10, tzinfo=timezone.utc)
USD_HOUR = 0.72  # of a machine: a cent each 50 seconds
STEPS_A_LOOK = 2


class PlayedClock(Clock):
    """A clock that moves when somebody sleeps, and then lets the cluster work."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.passes: Callable[[], None] = lambda: None

    def now(self) -> datetime:
        return START + timedelta(seconds=self.passed_s)

    def elapsed_s(self) -> float:
        return self.passed_s

    def sleep(self, seconds: float) -> None:
        self.passed_s += seconds
        self.passes()


@dataclass
class PlayedTrial:
    """The only trial of an experiment."""

    config: Mapping[str, Any]
    state: str = "ACTIVE"
    step: int = 0
    resumed_from: int = 0
    restarts: int = 0
    metrics: dict[int, Metric] = field(default_factory=dict)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)  # the newest first

    @property
    def steps(self) -> int:
        return int(self.config["hyperparameters"]["steps"])


@dataclass
class PlayedNotebook:
    has_ended: bool = False


class PlayedCluster(ClusterClient):
    """The cluster, with the faults that a test gives it."""

    def __init__(self, clock: PlayedClock) -> None:
        self.clock = clock
        self.trials: dict[int, PlayedTrial] = {}
        self.listed: list[Machine] = []
        self.earlier: set[str] = set()
        self.played_notebooks: dict[str, PlayedNotebook] = {}
        self.other_work: list[str] = []
        self.busy_agents: set[str] = set()
        self.capacity = "spot"
        self.waits_for = ""  # why no machine comes; empty: one comes
        self.forgets_checkpoints = False
        self.loses_step = 0
        self.charges_restarts = False
        self.ends_all_as = ""
        self.agent_name = ""  # of all machines, as where addresses are used again
        self.keeps_machines = False
        self.page = (200, "<title>JupyterLab</title>")
        self.versions = ["1.0"]
        self.is_administrator = True
        clock.passes = self.advance

    # The world

    def advance(self) -> None:
        """Let every trial that runs train some steps, and every queued one start if machines come."""
        for id, trial in self.trials.items():
            if trial.state != "ACTIVE":
                continue
            if self.ends_all_as:
                trial.state = self.ends_all_as
                continue
            if not trial.runs or trial.runs[0].has_ended:
                if not self.waits_for:
                    self._start(id, trial)
                continue
            for _ in range(STEPS_A_LOOK):
                self._train(trial)

    def lose(self, machine: Machine) -> None:
        """End a machine and the runs on it."""
        self._end(machine)
        for trial in self.trials.values():
            if trial.runs and trial.runs[0].agent_id == machine.agent_id:
                trial.runs[0] = replace(trial.runs[0], has_ended=True)
                trial.restarts += self.charges_restarts

    def add_machine(self, name: str, capacity: str = "spot") -> Machine:
        now = self.clock.now()
        machine = Machine(
            id=f"id-{name}", pool="gpus", provider="aws", region="us-west-2", offer=f"aws us-west-2a g4dn {capacity}",
            capacity=capacity, cloud_id=f"i-{name}", agent_id=self.agent_name or f"agent-{name}", cost_usd=0.0,
            requested_at=now, launched_at=now, registered_at=now, ended_at=None,
        )  # fmt: skip
        self.listed.append(machine)
        return machine

    def _start(self, id: int, trial: PlayedTrial) -> None:
        idle = self._idle_machine()
        machine = idle or self.add_machine(str(len(self.listed)), self.capacity)
        saved_step = trial.checkpoints[-1].step if trial.checkpoints else 0
        trial.step = trial.resumed_from = 0 if self.forgets_checkpoints else saved_step
        trial.metrics = {s: m for s, m in trial.metrics.items() if s <= trial.step}
        run = Run(f"{id}.{len(trial.runs)}", machine.agent_id, self.clock.now(), False, False)
        trial.runs.insert(0, run)

    def _idle_machine(self) -> Machine | None:
        used = {t.runs[0].agent_id for t in self.trials.values() if t.runs and not t.runs[0].has_ended}  # fmt: skip
        free = (m for m in self.listed if m.ended_at is None and m.agent_id not in used)
        return next(free, None)

    def _train(self, trial: PlayedTrial) -> None:
        if trial.step < trial.steps:
            trial.step += 1
            value = training.value_after(trial.step)
            if trial.step != self.loses_step:
                trial.metrics[trial.step] = Metric(
                    trial.step, value, trial.resumed_from, self.clock.now()
                )
            if trial.step % training.CHECKPOINT_EVERY == 0:
                checkpoint = Checkpoint(f"uuid-{trial.step}", trial.step, True, ["state.json"])
                trial.checkpoints.append(checkpoint)
        if trial.step >= trial.steps:
            trial.state = "COMPLETED"
            trial.runs[0] = replace(trial.runs[0], has_ended=True)

    def _end(self, machine: Machine) -> None:
        ended_machine = replace(machine, ended_at=self.clock.now())
        self.listed = [ended_machine if m.id == machine.id else m for m in self.listed]

    # The client

    @property
    def url(self) -> str:
        return "https://cluster"

    def version(self) -> str:
        return self.versions[0]

    def user(self) -> tuple[str, bool]:
        return "admin", self.is_administrator

    def live_allocations(self) -> list[str]:
        return self.other_work

    def machines(self) -> list[Machine]:
        return [m for m in self.listed if m.ended_at is None]

    def rented_since(self) -> list[Machine]:
        return [m for m in self.listed if m.id not in self.earlier]

    def spent_usd(self) -> float:
        def seconds(machine: Machine) -> float:
            return ((machine.ended_at or self.clock.now()) - machine.requested_at).total_seconds()

        return sum(seconds(machine) for machine in self.rented_since()) * USD_HOUR / 3600

    def agents_with_work(self) -> set[str]:
        return self.busy_agents

    def terminate(self, machine: Machine) -> None:
        if not self.keeps_machines:
            self._end(machine)

    def create_experiment(self, config: dict[str, Any]) -> int:
        id = len(self.trials) + 1
        self.trials[id] = PlayedTrial(config)
        return id

    def experiment_state(self, id: int) -> str:
        return self.trials[id].state

    def end_experiment(self, id: int) -> None:
        trial = self.trials[id]
        if trial.state == "ACTIVE":
            trial.state = "CANCELED"
            trial.runs[:1] = [replace(run, has_ended=True) for run in trial.runs[:1]]

    def trial_of(self, experiment_id: int) -> Trial | None:
        trial = self.trials[experiment_id]
        return Trial(experiment_id, f"{experiment_id}.t", trial.state, trial.restarts)

    def progress(self, trial_id: int) -> Progress:
        trial = self.trials[trial_id]
        ends = [trial.steps] if trial.state == "COMPLETED" else []
        metrics = sorted(trial.metrics.values(), key=lambda metric: metric.step)
        return Progress(metrics, ends, list(trial.checkpoints))

    def storage_of(self, experiment_id: int) -> tuple[str, str]:
        return "s3", "the-bucket"

    def why(self, kind: str, id: int | str) -> str:
        return self.waits_for

    def runs_of(self, task_id: str) -> list[Run]:
        if task_id in self.played_notebooks:
            return [Run("n", "agent", START, True, self.played_notebooks[task_id].has_ended)]
        return list(self.trials[int(task_id.split(".")[0])].runs)

    def start_notebook(self) -> tuple[str, str]:
        self.played_notebooks["notebook-1"] = PlayedNotebook()
        return "notebook-1", "/proxy/notebook-1/"

    def end_notebook(self, id: str) -> None:
        self.played_notebooks[id].has_ended = True

    def fetch(self, path: str) -> tuple[int, str]:
        return self.page


@dataclass
class PlayedCloud:
    """The operator's account."""

    cluster: PlayedCluster
    name: str = "AWS"
    storage_type: str = "s3"
    unknown_machines: list[str] = field(
        default_factory=list
    )  # in addition to the cluster's own list
    on: list[str] = field(default_factory=list)  # schedules
    state: DatabaseState = field(default_factory=lambda: DatabaseState(True, "the database was paused"))  # fmt: skip
    objects: Sequence[str] = ("state.json",)
    does_reclaim: bool = True

    def machines(self) -> Sequence[str]:
        return [m.cloud_id for m in self.cluster.machines()] + self.unknown_machines

    def schedules_on(self, names: Sequence[str]) -> Sequence[str]:
        return [name for name in names if name in self.on]

    def database(self) -> DatabaseState:
        return self.state

    def reclaim(self, machine: Machine) -> str:
        if self.does_reclaim:
            self.cluster.lose(machine)
        return f"terminated {machine.cloud_id}"

    def stored(self, bucket: str, checkpoint: str) -> Sequence[str]:
        return [f"{checkpoint}/{name}" for name in self.objects]


@dataclass
class PlayedDeployment:
    """The deployment; `upgrading` is called by every deployment of a cluster that exists."""

    cluster: PlayedCluster
    there: bool = True
    relay: str = ""
    cluster_id: str = "lab"
    made: int = 0
    is_removed: bool = False
    upgrading: Callable[[], None] = lambda: None

    def exists(self) -> bool:
        return self.there

    def make(self) -> None:
        self.made += 1
        if self.there:
            self.upgrading()
        self.there = True

    def outputs(self) -> Mapping[str, Any]:
        return {"url": "https://cluster", "relay": self.relay, "schedules": ["det-lab-tick"]}

    def sign_in(self) -> ClusterClient:
        return self.cluster

    def remove(self) -> Sequence[str]:
        self.is_removed = True
        return ["the bucket the-bucket"]


@dataclass
class RehearsalSession:
    """A rehearsal of a played cluster."""

    clock: PlayedClock = field(default_factory=PlayedClock)
    removes: bool = False
    idle_minutes: float = 10.0
    max_cost_usd: float = 5.0
    said: list[str] = field(default_factory=list)
    kept: list[Report] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster = PlayedCluster(self.clock)
        self.cloud = PlayedCloud(self.cluster)
        self.deployment = PlayedDeployment(self.cluster)

    def rehearsal(self, steps: str | None = None) -> Rehearsal:
        self.stage = Stage(
            self.deployment, self.cloud, "gpus", 1, self.idle_minutes, self.removes, self.said.append,
            self.clock,
        )  # fmt: skip
        rates = Rates(machine=USD_HOUR, aux_machine=0.2, awake=0.06, idle=0.001)
        plan = make(parse_steps(steps), rates, self.idle_minutes)
        return Rehearsal(
            plan, self.stage, "us-west-2", self.max_cost_usd, {"det": "1.0"}, self.kept.append
        )

    def run(self, steps: str | None = None) -> Report:
        return self.rehearsal(steps).run()

    def outcome(self, step: str, steps: str | None = None) -> Outcome:
        """Run some steps, by default this one after `up`, and return the outcome of one."""
        report = self.run(steps or step)
        return next(outcome for outcome in report.outcomes if outcome.step == step)
