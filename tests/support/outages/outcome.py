"""The state of one agent's work after an outage, as the API and the files of its containers show it."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.e2e.outages import train
from tests.support.cluster import Cluster
from tests.support.outages.kinds import Kind
from tests.support.outages.work import Work

Points = list[tuple[int, float]]
_STEP = re.compile(r"run (\d+) step (\d+)")
_PRINTED = re.compile(r"at step (\d+)")


@dataclass(frozen=True)
class TrialOutcome:
    name: str  # its pace and seed
    seed: int
    state: str
    restarts: int
    runs: int  # that the cluster started
    steps: list[int]  # as trained, repetitions included
    trained_in_outage: bool
    training: Points
    validation: Points
    checkpoints: list[int]
    best: float | None
    printed: list[int]  # steps in the log lines of the training
    errors: list[str]  # lines of the log
    log: list[str]  # of the cluster and the agent

    @property
    def expected(self) -> tuple[Points, Points]:
        """Return the training and validation points of a run without faults."""
        losses = train.losses(self.seed)
        every = (train.TRAINING_EVERY, train.VALIDATION_EVERY)
        training, validation = (
            [(step, losses[step - 1]) for step in range(n, train.STEPS + 1, n)] for n in every
        )
        return training, validation

    @property
    def best_expected(self) -> float:
        return min(loss for _, loss in self.expected[1])

    @property
    def checkpoints_expected(self) -> list[int]:
        return list(range(train.CHECKPOINT_EVERY, train.STEPS + 1, train.CHECKPOINT_EVERY))

    @property
    def points(self) -> int:
        """Return how many of the expected points are stored exactly once."""
        counters = (Counter(self.training), Counter(self.validation))
        return sum(
            counts[point] == 1
            for counts, points in zip(counters, self.expected, strict=True)
            for point in points
        )

    @property
    def repeated_steps(self) -> int:
        return len(self.steps) - len(set(self.steps))


@dataclass(frozen=True)
class TaskOutcome:
    state: str
    exit_status: str
    runs: int
    notes: list[str]  # of its containers
    log: list[str]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one kind of outage. `lost` has lines of the cluster's log about agents that were given up."""

    kind: Kind
    agent: str
    length_s: float
    experiment: str
    trials: list[TrialOutcome]
    command: TaskOutcome
    lasting: TaskOutcome
    task: TaskOutcome
    lost: list[str]
    why: list[str]  # sentences about the experiment during the outage

    @property
    def points(self) -> int:
        return sum(trial.points for trial in self.trials)

    @property
    def points_expected(self) -> int:
        return sum(len(points) for trial in self.trials for points in trial.expected)

    @property
    def repeated_steps(self) -> int:
        return sum(trial.repeated_steps for trial in self.trials)

    @property
    def lasting_is_the_same(self) -> bool:
        """Return whether the command that outlives the outage still runs in its only container."""
        notes = self.lasting.notes
        starts, serves = (
            [note.split()[1] for note in notes if note.startswith(word)]
            for word in ("started", "serves")
        )
        return self.lasting.runs == 1 and len(starts) == 1 and starts == serves


@dataclass(frozen=True)
class Observation:
    """Observations from the time of an outage."""

    trained: set[str]  # trials that ended their training then
    lost: list[str]
    why: list[str]


def outcome_of(
    work: Work, kind: Kind, agent: str, length_s: float, observation: Observation
) -> Outcome:
    cluster = work.cluster
    return Outcome(
        kind=kind,
        agent=agent,
        length_s=length_s,
        experiment=_plain(cluster.experiment(work.experiment)["state"]),
        trials=[
            _trial(work, trial, observation.trained) for trial in cluster.trials(work.experiment)
        ],
        command=_command(work, "command", work.command),
        lasting=_command(work, "lasting", work.lasting),
        task=_task(work),
        lost=observation.lost,
        why=observation.why,
    )


def _trial(work: Work, trial: dict[str, Any], trained_names: set[str]) -> TrialOutcome:
    cluster, id = work.cluster, int(trial["id"])
    seed, pace = trial["hparams"]["seed"], trial["hparams"]["pace"]
    name = f"{pace}-{seed}"
    steps = [int(m[2]) for line in work.steps_of(name) if (m := _STEP.fullmatch(line))]
    lines = cluster.task_logs(id)
    checkpoints = cluster.get(f"/api/v1/trials/{id}/checkpoints")["checkpoints"]
    best = (trial.get("bestValidation") or {}).get("metrics", {}).get("avgMetrics", {}).get("loss")
    return TrialOutcome(
        name=name,
        seed=seed,
        state=_plain(trial["state"]),
        restarts=int(trial["restarts"]),
        runs=len(cluster.get(f"/api/v1/tasks/{trial['taskId']}")["task"]["allocations"]),
        steps=steps,
        trained_in_outage=name in trained_names,
        training=_points(cluster, id, "training"),
        validation=_points(cluster, id, "validation"),
        checkpoints=sorted(int(c["metadata"]["steps_completed"]) for c in checkpoints),
        best=best,
        printed=[int(m[1]) for e in lines if (m := _PRINTED.fullmatch(e["log"].rstrip()))],
        errors=[e["log"].rstrip() for e in lines if e["level"] in _ERRORS],
        log=[e["log"].rstrip() for e in lines if e["source"] != "task"],
    )


_ERRORS = ("LOG_LEVEL_ERROR", "LOG_LEVEL_CRITICAL")


_VALUES = {"training": "avg_metrics", "validation": "validation_metrics"}


def _points(cluster: Cluster, trial_id: int, group: str) -> Points:
    text = cluster.text(f"/api/v1/trials/metrics/{group}_metrics?trialIds={trial_id}")
    batches = [json.loads(line)["result"]["metrics"] for line in text.splitlines() if line]
    return [
        (int(report["totalBatches"]), report["metrics"][_VALUES[group]]["loss"])
        for batch in batches
        for report in batch
    ]


def _command(work: Work, name: str, id: str) -> TaskOutcome:
    command = work.cluster.get(f"/api/v1/commands/{id}")["command"]
    return _task_outcome(work, name, id, _plain(command["state"]), str(command["exitStatus"]))


def _task(work: Work) -> TaskOutcome:
    task = work.cluster.get(f"/api/v1/tasks/{work.task}")["task"]
    state = str(task["taskState"]).removeprefix("GENERIC_TASK_STATE_")
    return _task_outcome(work, "task", work.task, state, "")


def _task_outcome(work: Work, name: str, id: str, state: str, exit_status: str) -> TaskOutcome:
    allocations = work.cluster.get(f"/api/v1/tasks/{id}")["task"]["allocations"]
    text = work.cluster.text(f"/api/v1/tasks/{id}/logs")
    log = [json.loads(line)["result"]["log"].rstrip() for line in text.splitlines() if line]
    return TaskOutcome(state, exit_status, len(allocations), work.notes_of(name), log)


def _plain(state: str) -> str:
    return str(state).removeprefix("STATE_")
