"""The steps that train on rented machines: spot, train, interruption and upgrade."""

from datetime import datetime

from det_cli.deployment.rehearsal import jobs
from det_cli.deployment.rehearsal.cluster_client import Machine, Progress, Run, Trial
from det_cli.deployment.rehearsal.records import StepFailed
from det_cli.deployment.rehearsal.stage import Stage

_SHORT, _WHOLE, _ENDLESS = 2, 20, 1_000_000
_QUICK_S, _STEADY_S = 0.1, 0.5


def spot(stage: Stage, limit_s: float) -> str:
    """Run a small job and measure the start of its machine."""
    started_at = stage.clock.now()
    experiment = jobs.submit(stage, "spot", _SHORT, _QUICK_S)
    trial, progress = jobs.until_reported(stage, experiment, 1, limit_s)
    run = jobs.newest_run(stage, trial)
    machine = jobs.machine_of(stage, run)
    if machine.capacity != "spot":
        raise StepFailed(
            f"the job ran on {machine.offer}, which is not a spot machine",
            "deploy the cluster with --spot, or give a --pool with spot offers",
        )
    jobs.until_completed(stage, experiment, limit_s)
    return f"{machine.offer}: {_times(started_at, machine, run, progress.metrics[0].reported_at)}"


def _times(started_at: datetime, machine: Machine, run: Run, reported_at: datetime) -> str:
    """Return the duration of each part, measured by the cluster's clock."""
    if (
        machine.requested_at < started_at
        and machine.registered_at
        and machine.registered_at < started_at
    ):
        return "the machine existed before the job, so its start could not be measured"
    moments = {
        "requested": machine.requested_at,
        "running in the cloud": machine.launched_at,
        "joined": machine.registered_at,
        "container running": run.started_at,
        "first metric": reported_at,
    }
    first = machine.requested_at
    parts = [
        f"{name} after {(moment - first).total_seconds():.0f} s"
        for name, moment in moments.items()
        if moment is not None and name != "requested"
    ]
    return ", ".join(parts)


def train(stage: Stage, limit_s: float) -> str:
    """Complete a training and verify its metrics and its checkpoint."""
    experiment = jobs.submit(stage, "train", _WHOLE, _QUICK_S)
    trial, _ = jobs.until_reported(stage, experiment, 1, limit_s)
    jobs.until_completed(stage, experiment, limit_s)
    progress = stage.cluster.progress(trial.id)
    jobs.check_metrics(stage, trial)
    if progress.last_step != _WHOLE or _WHOLE not in progress.validations:
        raise StepFailed(
            f"the training of {_WHOLE} steps reported {progress.last_step} steps and validations at"
            f" {list(progress.validations)}",
            f"`det trial logs {trial.id}` shows its log",
        )
    stored = _check_checkpoint(stage, experiment, progress)
    return f"{_WHOLE} steps with correct metrics, a validation, and a checkpoint{stored}"


def _check_checkpoint(stage: Stage, experiment: int, progress: Progress) -> str:
    """Compare the newest checkpoint with its objects in the bucket. Return a text with their location."""
    complete = [c for c in progress.checkpoints if c.is_complete]
    if not complete:
        raise StepFailed(
            "the training saved no complete checkpoint",
            f"`det experiment logs {experiment}` shows the error; docs/guides/machines.md lists the permissions",
        )
    newest = max(complete, key=lambda checkpoint: checkpoint.step)
    kind, bucket = stage.cluster.storage_of(experiment)
    if kind != stage.cloud.storage_type:
        return f" ({kind} storage, which the rehearsal does not check)"
    stored = [name.rpartition(newest.uuid + "/")[2] for name in stage.cloud.stored(bucket, newest.uuid)]  # fmt: skip
    missing = sorted(set(newest.files) - set(stored))
    if missing:
        raise StepFailed(
            f"the bucket {bucket} lacks {', '.join(missing)} of checkpoint {newest.uuid}",
            "check the bucket's lifecycle rules and access",
        )
    return f" of {len(newest.files)} files in the bucket {bucket}"


def interruption(stage: Stage, limit_s: float) -> str:
    """Terminate the machine of a trial, and check that the trial resumes from its checkpoint."""
    experiment = jobs.submit(stage, "interruption", _ENDLESS, _STEADY_S)
    trial, before = jobs.until_saved(stage, experiment, limit_s)
    first_run = jobs.newest_run(stage, trial)
    machine = jobs.machine_of(stage, first_run)
    started_s = stage.clock.elapsed_s()
    action = stage.cloud.reclaim(machine)
    stage.say(f"  {action}")
    saved, reached = before.saved_step, before.last_step

    def progress_elsewhere() -> Progress | None:
        """Return the progress if a later run on another machine has passed the last step of the first run."""
        jobs.check_active(stage, experiment)
        run = jobs.newest_run(stage, trial)
        if run.id == first_run.id or run.started_at is None:
            return None
        # Agent names contain addresses, and a later machine may get the same address.
        if jobs.machine_of(stage, run).id == machine.id:
            return None
        progress = stage.cluster.progress(trial.id)
        if not progress.metrics:
            return None  # the new run has not reported yet
        newest = jobs.newest_metric(progress)
        is_of_this_run = newest.step > reached and newest.reported_at >= run.started_at
        return progress if is_of_this_run else None

    after = stage.until(
        progress_elsewhere, "progress on another machine", limit_s,
        lambda: stage.cluster.why("trial", trial.id),
    )  # fmt: skip
    waited_s = stage.clock.elapsed_s() - started_s
    _check_resumed(after, saved, trial)
    jobs.check_metrics(stage, trial)
    jobs.check_restarts(stage, experiment)
    jobs.end(stage, experiment)
    resumed_from = jobs.newest_metric(after).resumed_from
    return f"{action}; the trial continued {waited_s:.0f} s later from its checkpoint of step {resumed_from}"


def _check_resumed(after: Progress, saved: int, trial: Trial) -> None:
    resumed_from = jobs.newest_metric(after).resumed_from
    if resumed_from < saved:
        raise StepFailed(
            f"the trial had a checkpoint of step {saved} but restarted at step {resumed_from}",
            f"`det trial logs {trial.id}` shows why the checkpoint was not restored",
        )


def upgrade(stage: Stage, limit_s: float) -> str:
    """Deploy again while a trial runs, and check that the trial continued."""
    experiment = jobs.submit(stage, "upgrade", _ENDLESS, _STEADY_S)
    trial, before = jobs.until_saved(stage, experiment, limit_s)
    version = stage.cluster.version()
    stage.deployed.make()
    stage.version = stage.cluster.version()
    during = stage.cluster.progress(trial.id)
    after = stage.until(
        lambda: _progress_beyond(stage, experiment, trial, during.last_step),
        "progress after the upgrade",
        limit_s,
        lambda: stage.cluster.why("trial", trial.id),
    )
    jobs.check_metrics(stage, trial)
    jobs.check_restarts(stage, experiment)
    jobs.end(stage, experiment)
    moved = (
        " (on another machine, because the first machine was reclaimed)"
        if jobs.newest_metric(after).resumed_from
        else ""
    )
    return (
        f"from version {version} to {stage.version}; the trial went from step {before.last_step}"
        f" to {after.last_step} without a gap{moved}"
    )  # fmt: skip


def _progress_beyond(stage: Stage, experiment: int, trial: Trial, beyond: int) -> Progress | None:
    jobs.check_active(stage, experiment)
    progress = stage.cluster.progress(trial.id)
    return progress if progress.last_step > beyond else None
