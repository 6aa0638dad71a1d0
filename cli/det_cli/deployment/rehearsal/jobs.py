"""The jobs of a rehearsal: submit a training, wait for its progress, and verify its metrics."""

from collections.abc import Callable

from det_cli.deployment.rehearsal.cluster_client import (
    Machine,
    Metric,
    Progress,
    Run,
    Trial,
)
from det_cli.deployment.rehearsal.records import StepFailed
from det_cli.deployment.rehearsal.stage import Stage
from det_cli.deployment.rehearsal.training import train as training

_SAVED_AT_LEAST = training.CHECKPOINT_EVERY
_REPORTS_ARRIVE_S = 60.0
_ENDED = ("COMPLETED", "CANCELED", "ERROR", "DELETED")


def newest_metric(progress: Progress) -> Metric:
    return max(progress.metrics, key=lambda metric: metric.step)


def submit(stage: Stage, name: str, steps: int, pause_s: float) -> int:
    config = {
        "name": f"rehearsal: {name}",
        "labels": ["rehearsal"],
        "entrypoint": "python3 train.py",
        "hyperparameters": {"steps": steps, "pause_s": pause_s},
        "searcher": {"name": "single", "metric": "value", "max_length": {"batches": steps}},
        "resources": {"slots_per_trial": stage.slots, "resource_pool": stage.pool},
        "max_restarts": 1,
    }
    id = stage.cluster.create_experiment(config)
    stage.experiments.append(id)
    return id


def until_reported(
    stage: Stage, experiment: int, step: int, limit_s: float
) -> tuple[Trial, Progress]:
    """Wait until the first trial has reported this step."""
    return _until(stage, experiment, lambda p: p.last_step >= step, "first metric", limit_s)


def until_saved(stage: Stage, experiment: int, limit_s: float) -> tuple[Trial, Progress]:
    """Wait until the first trial has a checkpoint and has reported a later step."""

    def has_more(progress: Progress) -> bool:
        saved = progress.saved_step
        return saved >= _SAVED_AT_LEAST and progress.last_step > saved

    return _until(stage, experiment, has_more, "checkpoint", limit_s)


def _until(
    stage: Stage,
    experiment: int,
    holds: Callable[[Progress], bool],
    description: str,
    limit_s: float,
) -> tuple[Trial, Progress]:
    def look() -> tuple[Trial, Progress] | None:
        trial = stage.cluster.trial_of(experiment)
        if trial is None:
            return None
        progress = stage.cluster.progress(trial.id)
        if holds(progress):
            return trial, progress
        check_active(stage, experiment)
        return None

    return stage.until(
        look, f"{description} of experiment {experiment}", limit_s,
        lambda: stage.cluster.why("experiment", experiment),
        next_step=f"`det why {experiment}` and `det pool why {stage.pool}` explain why it waits",
    )  # fmt: skip


def check_active(stage: Stage, experiment: int) -> None:
    state = stage.cluster.experiment_state(experiment)
    if state in _ENDED:
        raise StepFailed(
            f"experiment {experiment} ended too early as {state}: {stage.cluster.why('experiment', experiment)}",
            f"`det experiment logs {experiment}` shows what it printed",
        )


def until_completed(stage: Stage, experiment: int, limit_s: float) -> None:
    def look() -> str | None:
        state = stage.cluster.experiment_state(experiment)
        return state if state in _ENDED else None

    state = stage.until(look, f"end of experiment {experiment}", limit_s)
    if state != "COMPLETED":
        raise StepFailed(
            f"experiment {experiment} ended as {state}: {stage.cluster.why('experiment', experiment)}",
            f"`det experiment logs {experiment}` shows what it printed",
        )


def newest_run(stage: Stage, trial: Trial) -> Run:
    return stage.cluster.runs_of(trial.task_id)[0]


def machine_of(stage: Stage, run: Run) -> Machine:
    """Return the rented machine of a run. Raises StepFailed if the agent is not a rented machine."""
    machines = [*stage.cluster.rented_since(), *stage.cluster.machines()]
    candidates = [
        machine for machine in machines if machine.agent_id and machine.agent_id == run.agent_id
    ]
    newest = max(candidates, key=lambda machine: machine.requested_at, default=None)
    if newest is None:
        raise StepFailed(
            f"the job ran on agent {run.agent_id or '(none)'}, which is not a rented machine",
            "give a pool that rents machines with --pool",
        )
    return newest


def check_metrics(stage: Stage, trial: Trial) -> None:
    """Verify the metric of every step. Raises StepFailed for missing, repeated or wrong metrics."""
    problem = ""

    def is_complete() -> bool:
        """Return True without a problem. The newest reports may not have arrived yet."""
        nonlocal problem
        problem = _problem_of(stage.cluster.progress(trial.id))
        return not problem

    try:
        stage.until(is_complete, "complete metrics", _REPORTS_ARRIVE_S)
    except StepFailed:
        raise StepFailed(
            problem,
            f"`det trial describe {trial.id} --metrics` lists them, `det trial logs {trial.id}` has the log",
        ) from None


def _problem_of(progress: Progress) -> str:
    steps = [metric.step for metric in progress.metrics]
    missing = sorted(set(range(1, progress.last_step + 1)) - set(steps))
    wrong = [m.step for m in progress.metrics if m.value != training.value_after(m.step)]
    repeated = len(steps) - len(set(steps))
    if not (missing or wrong or repeated):
        return ""
    return (
        f"of {progress.last_step} steps, {len(missing)} have no metric {missing[:5]}, {len(wrong)} have a wrong metric"
        f" {wrong[:5]}, and {repeated} are repeated"
    )


def check_restarts(stage: Stage, experiment: int) -> None:
    trial = stage.cluster.trial_of(experiment)
    if trial is not None and trial.restarts:
        raise StepFailed(
            f"trial {trial.id} has {trial.restarts} counted restarts, although its code did not fail",
            f"`det trial logs {trial.id}` shows how its run ended",
        )


def end(stage: Stage, experiment: int) -> None:
    stage.cluster.end_experiment(experiment)
    stage.until(
        lambda: stage.cluster.experiment_state(experiment) in _ENDED, f"end of experiment {experiment}", 600.0
    )  # fmt: skip
