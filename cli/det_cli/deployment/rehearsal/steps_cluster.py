"""The steps for the cluster as a whole: up, idle, notebook and down."""

from collections.abc import Mapping
from typing import Any

from det_cli.deployment.rehearsal.records import StepFailed, StepSkipped
from det_cli.deployment.rehearsal.stage import Stage

_SCHEDULES_OFF_S = 180.0
_PAGE_MARK = "jupyter"
# Aurora pauses after five minutes without a connection. Its metric is some minutes late.
_PAUSES_AFTER_MINUTES = 8.0


def up(stage: Stage, limit_s: float) -> str:
    """Create the cluster if it does not exist, and sign in."""
    if not stage.deployed.exists():
        stage.made_cluster = (
            True  # set before `make`, because an interrupted run may leave resources
        )
        stage.deployed.make()
    stage.client = stage.deployed.sign_in()
    name, is_administrator = stage.client.user()
    if not is_administrator:
        raise StepFailed(
            f"{name} is not an administrator of the cluster, and only administrators may terminate machines",
            f"run `det -m {stage.cluster.url} user login admin`, then rehearse again",
        )
    stage.version = stage.cluster.version()
    origin = "was created" if stage.made_cluster else "existed before"
    return f"the cluster {origin} and answers at {stage.cluster.url} with version {stage.version}"


def idle(stage: Stage, limit_s: float) -> str:
    """Leave the cluster idle for a while, then check its machines and schedules in the cloud."""
    work = stage.cluster.live_allocations()
    if work:
        raise StepSkipped(f"the cluster is not idle: it has {len(work)} running or queued tasks")
    machines = stage.cluster.machines()
    if machines:
        names = ", ".join(f"{m.cloud_id or m.id} of {m.pool}" for m in machines)
        raise StepFailed(
            f"the cluster has no work but {len(machines)} machines: {names}",
            "wait for max_idle_agent_period and rehearse again; pools with min_instances or warm_instances"
            " always keep machines",
        )
    stage.clock.sleep(stage.idle_minutes * 60)
    unknown = stage.cloud.machines()
    if unknown:
        raise StepFailed(
            f"{stage.cloud.name} has machines of the cluster that the cluster does not list: {', '.join(unknown)}",
            f"terminate them in the console of {stage.cloud.name}; `det instance list --all` shows the cluster's list",
        )
    _wait_for_schedules(stage)
    return f"no machine for {stage.idle_minutes:g} minutes, all schedules off, {_database(stage)}"


def _wait_for_schedules(stage: Stage) -> None:
    names = list(stage.deployed.outputs().get("schedules") or ())
    stage.until(
        lambda: not stage.cloud.schedules_on(names),
        "idle control plane: the schedules " + ", ".join(names) + " are still on",
        _SCHEDULES_OFF_S,
        next_step="the log of the function or service `tick` shows the pending work",
    )


def _database(stage: Stage) -> str:
    state = stage.cloud.database()
    if state.is_paused is False and stage.idle_minutes >= _PAUSES_AFTER_MINUTES:
        raise StepFailed(
            f"the database does not pause: {state.sentence}",
            "an open WebUI page, a monitor or another client keeps it awake: close it and rehearse again",
        )
    return state.sentence


def notebook(stage: Stage, limit_s: float) -> str:
    """Start a notebook, open its page through the cluster, and stop it."""
    if not _has_relay(stage.deployed.outputs()):
        raise StepSkipped("the cluster has no relay, which notebooks need")
    id, path = stage.cluster.start_notebook()
    stage.notebooks.append(id)

    def is_ready() -> bool:
        runs = stage.cluster.runs_of(id)
        if runs and runs[0].has_ended:
            raise StepFailed(
                f"the notebook {id} ended before it was ready",
                f"`det notebook logs {id}` shows why",
            )
        return bool(runs and runs[0].is_ready)

    stage.until(is_ready, "ready notebook", limit_s, lambda: stage.cluster.why("task", id))
    status, text = stage.cluster.fetch(path)
    if status != 200 or _PAGE_MARK not in text.lower():
        raise StepFailed(
            f"the page of the notebook returned status {status}: {text[:200]!r}",
            "see docs/guides/relay.md and the log of the relay",
        )
    stage.cluster.end_notebook(id)
    stage.until(
        lambda: all(run.has_ended for run in stage.cluster.runs_of(id)), "end of the notebook", 300.0
    )  # fmt: skip
    return f"the page of the notebook has {len(text)} characters and came through the relay"


def _has_relay(outputs: Mapping[str, Any]) -> bool:
    return bool(outputs.get("relay") or "relay" in (outputs.get("services") or {}))


def down(stage: Stage, limit_s: float) -> str:
    """Remove the cluster."""
    if not stage.removes:
        raise StepSkipped(removal_rule(stage))
    stage.remains = list(stage.deployed.remove())
    stage.is_removed = True
    return "the cluster is removed and all its machines are terminated"


def removal_rule(stage: Stage) -> str:
    """Return the reason why the cluster is kept."""
    if stage.made_cluster:
        return "--keep is set"
    return "the cluster existed before the rehearsal, so only --down removes it"
