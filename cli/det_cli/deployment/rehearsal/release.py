"""Release everything that a rehearsal started: experiments, notebooks and the machines rented for them."""

from collections.abc import Callable

from det_cli.deployment.rehearsal.cluster_client import ClusterClient, Machine
from det_cli.deployment.rehearsal.records import StepFailed
from det_cli.deployment.rehearsal.stage import FAILURES, Stage, told

_WORK_ENDS_S = 180.0
_MACHINES_END_S = 900.0


def release(stage: Stage) -> list[str]:
    """End the rehearsal's work and its machines; return the machines that did not end. Never raises a failure."""
    if stage.client is None or stage.is_removed:
        return []
    cluster = stage.client
    for experiment in stage.experiments:
        _tried(stage, f"experiment {experiment}", lambda id=experiment: cluster.end_experiment(id))  # type: ignore[misc]
    for notebook in stage.notebooks:
        _tried(stage, f"notebook {notebook}", lambda id=notebook: cluster.end_notebook(id))  # type: ignore[misc]
    try:
        return _release_machines(stage, cluster)
    except FAILURES as e:
        stage.say(f"warning: the cluster cannot be asked to end machines: {told(e)[0]}")
        return _seen_by_cloud(stage)


def _tried(stage: Stage, what: str, act: Callable[[], None]) -> None:
    try:
        act()
    except FAILURES as e:
        stage.say(f"warning: {what} was not ended: {told(e)[0]}")


def _seen_by_cloud(stage: Stage) -> list[str]:
    try:
        return [f"{name} in {stage.cloud.name}" for name in stage.cloud.machines()]
    except FAILURES as e:
        return [f"unknown, as {stage.cloud.name} cannot be asked: {told(e)[0]}"]


def _release_machines(stage: Stage, cluster: ClusterClient) -> list[str]:
    ours = [machine for machine in cluster.rented_since() if machine.ended_at is None]
    if not ours:
        return []
    stage.say(f"Releasing {len(ours)} machines")
    busy = _busy_after_a_while(stage, cluster, ours)
    for machine in ours:
        if machine.id not in busy:
            _tried(stage, f"machine {machine.id}", lambda m=machine: cluster.terminate(m))  # type: ignore[misc]
    for machine in ours:
        if machine.id in busy:
            stage.say(f"{machine.offer} stays: other work runs there")
    wanted = {machine.id for machine in ours} - busy

    def left() -> list[Machine]:
        return [m for m in cluster.machines() if m.id in wanted]

    try:
        stage.until(lambda: not left(), "end of the machines", _MACHINES_END_S)
    except StepFailed:
        return [f"{m.offer} {m.cloud_id or m.id}" for m in left()]
    return []


def _busy_after_a_while(stage: Stage, cluster: ClusterClient, ours: list[Machine]) -> set[str]:
    """Wait until the rehearsal's own containers have ended; return the machines with other work."""

    def busy() -> set[str]:
        working = cluster.agents_with_work()
        return {machine.id for machine in ours if machine.agent_id in working}

    try:
        stage.until(lambda: not busy(), "end of the rehearsal's containers", _WORK_ENDS_S)
    except StepFailed:
        return busy()
    return set()
