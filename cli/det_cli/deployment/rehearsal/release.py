"""End the experiments and notebooks of a rehearsal and terminate the machines rented for them."""

from collections.abc import Callable
from functools import partial

from det_cli.deployment.rehearsal.cluster_client import ClusterClient, Machine
from det_cli.deployment.rehearsal.records import StepFailed
from det_cli.deployment.rehearsal.stage import FAILURES, Stage, cause_and_hint
from det_cli.render import counted

_WORK_ENDS_S = 180.0
_MACHINES_END_S = 900.0


def release(stage: Stage) -> list[str]:
    """End the rehearsal's work and machines. Return the machines that did not end. Does not raise."""
    if stage.client is None or stage.is_removed:
        return []
    cluster = stage.client
    for experiment in stage.experiments:
        _attempt(stage, f"experiment {experiment}", partial(cluster.end_experiment, experiment))
    for notebook in stage.notebooks:
        _attempt(stage, f"notebook {notebook}", partial(cluster.end_notebook, notebook))
    try:
        return _release_machines(stage, cluster)
    except FAILURES as e:
        stage.say(f"warning: the cluster cannot terminate its machines: {cause_and_hint(e)[0]}")
        return _machines_in_cloud(stage)


def _attempt(stage: Stage, name: str, act: Callable[[], None]) -> None:
    try:
        act()
    except FAILURES as e:
        stage.say(f"warning: {name} was not ended: {cause_and_hint(e)[0]}")


def _machines_in_cloud(stage: Stage) -> list[str]:
    try:
        return [f"{name} in {stage.cloud.name}" for name in stage.cloud.machines()]
    except FAILURES as e:
        return [f"unknown, because {stage.cloud.name} cannot be reached: {cause_and_hint(e)[0]}"]


def _release_machines(stage: Stage, cluster: ClusterClient) -> list[str]:
    machines = [machine for machine in cluster.rented_since() if machine.ended_at is None]
    if not machines:
        return []
    stage.say(f"Terminating {counted(len(machines), 'machine')}")
    busy = _wait_for_containers(stage, cluster, machines)
    for machine in machines:
        if machine.id not in busy:
            _attempt(stage, f"machine {machine.id}", partial(cluster.terminate, machine))
    for machine in machines:
        if machine.id in busy:
            stage.say(f"{machine.offer} is kept because other work runs on it")
    released = {machine.id for machine in machines} - busy

    def remaining() -> list[Machine]:
        return [m for m in cluster.machines() if m.id in released]

    try:
        stage.until(lambda: not remaining(), "end of the machines", _MACHINES_END_S)
    except StepFailed:
        return [f"{m.offer} {m.cloud_id or m.id}" for m in remaining()]
    return []


def _wait_for_containers(stage: Stage, cluster: ClusterClient, machines: list[Machine]) -> set[str]:
    """Wait until the rehearsal's own containers have ended. Return the machines with other work."""

    def busy() -> set[str]:
        working = cluster.agents_with_work()
        return {machine.id for machine in machines if machine.agent_id in working}

    try:
        stage.until(lambda: not busy(), "end of the rehearsal's containers", _WORK_ENDS_S)
    except StepFailed:
        return busy()
    return set()
