"""The steps that concern the cluster as a whole: up, idle, notebook and down."""

from collections.abc import Mapping
from typing import Any

from det_cli.deployment.rehearsal.records import StepFailed, StepSkipped
from det_cli.deployment.rehearsal.stage import Stage

_SCHEDULES_OFF_S = 180.0
_PAGE_MARK = "jupyter"
_PAUSES_AFTER_MINUTES = (
    8.0  # Aurora after five without a connection, and its metric some minutes later
)


def up(stage: Stage, limit_s: float) -> str:
    """Create the cluster if it does not exist, and sign in."""
    if not stage.deployed.exists():
        stage.made_cluster = True  # also if this is interrupted: parts may be there
        stage.deployed.make()
    stage.client = stage.deployed.sign_in()
    name, is_administrator = stage.client.user()
    if not is_administrator:
        raise StepFailed(
            f"{name} is no administrator of the cluster, and only those may end machines",
            f"`det -m {stage.cluster.url} user login admin`, then rehearse again",
        )
    stage.version = stage.cluster.version()
    made = "was created" if stage.made_cluster else "existed before"
    return f"the cluster {made}, and answers at {stage.cluster.url} with version {stage.version}"


def idle(stage: Stage, limit_s: float) -> str:
    """Leave the cluster alone for a while, then look at its machines and schedules in the cloud."""
    work = stage.cluster.live_allocations()
    if work:
        raise StepSkipped(f"the cluster is not idle: {len(work)} tasks run or wait there")
    machines = stage.cluster.machines()
    if machines:
        names = ", ".join(f"{m.cloud_id or m.id} of {m.pool}" for m in machines)
        raise StepFailed(
            f"without work the cluster has {len(machines)} machines: {names}",
            "wait for max_idle_agent_period and rehearse again; min_instances and warm_instances of a pool"
            " keep machines on purpose",
        )
    stage.clock.sleep(stage.idle_minutes * 60)
    left = stage.cloud.machines()
    if left:
        raise StepFailed(
            f"{stage.cloud.name} has machines of the cluster that the cluster does not know: {', '.join(left)}",
            f"end them in the console of {stage.cloud.name}; `det instance list --all` shows the cluster's view",
        )
    _wait_for_schedules(stage)
    return f"no machine for {stage.idle_minutes:g} minutes, all schedules off, {_database(stage)}"


def _wait_for_schedules(stage: Stage) -> None:
    names = list(stage.deployed.outputs().get("schedules") or ())
    stage.until(
        lambda: not stage.cloud.schedules_on(names),
        "idle control plane: the schedules " + ", ".join(names) + " are still on",
        _SCHEDULES_OFF_S,
        next_step="the log of the function or service `tick` says what is still due",
    )


def _database(stage: Stage) -> str:
    state = stage.cloud.database()
    if state.is_paused is False and stage.idle_minutes >= _PAUSES_AFTER_MINUTES:
        raise StepFailed(
            f"the database does not pause: {state.sentence}",
            "an open page of the WebUI, a monitor or another client keeps it awake: close them and rehearse again",
        )
    return state.sentence


def notebook(stage: Stage, limit_s: float) -> str:
    """Start a notebook, fetch its page through the cluster, and end it."""
    if not _has_relay(stage.deployed.outputs()):
        raise StepSkipped("the cluster has no relay, which carries traffic to notebooks")
    id, path = stage.cluster.start_notebook()
    stage.notebooks.append(id)

    def serves() -> bool:
        runs = stage.cluster.runs_of(id)
        if runs and runs[0].has_ended:
            raise StepFailed(
                f"the notebook {id} ended before it served", f"`det notebook logs {id}` says why"
            )
        return bool(runs and runs[0].is_ready)

    stage.until(serves, "notebook that serves", limit_s, lambda: stage.cluster.why("task", id))
    status, text = stage.cluster.fetch(path)
    if status != 200 or _PAGE_MARK not in text.lower():
        raise StepFailed(
            f"the page of the notebook was answered with status {status}: {text[:200]!r}",
            "docs/guides/relay.md, and the log of the relay",
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
    return "the cluster is removed, and no machine of it is left"


def removal_rule(stage: Stage) -> str:
    """Say why the cluster stays."""
    if stage.made_cluster:
        return "--keep leaves the cluster that the rehearsal created"
    return "the cluster existed before the rehearsal, which removes such a cluster with --down only"
