"""Take what agents report about containers, and move their allocations on accordingly."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from det_controlplane.core.lifecycle.allocation import (
    AllocationState,
    ContainerState,
    Exit,
    classify,
    state_of,
)
from det_controlplane.db import allocations, containers, slots, trials
from det_controlplane.db.allocations import AllocationRow
from det_controlplane.db.containers import ContainerRow
from det_controlplane.db.engine import as_json
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid
from det_controlplane.services.experiments import live
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.tasks import lifecycle
from det_controlplane.services.use_case import Change, change

_ORDER = tuple(s.value for s in ContainerState)


@dataclass(frozen=True, slots=True)
class Report:
    """The state of a container as its agent sees it."""

    id: str
    epoch: int
    state: ContainerState
    exit_code: int | None = None
    failure: str | None = None
    message: str | None = None
    address: str | None = None
    host_ports: dict[str, Any] | None = None
    runtime_id: str | None = None

    @property
    def terminated(self) -> bool:
        return self.state is ContainerState.TERMINATED


def report(ctx: Context, agent_id: str, report: Report, known_state: str) -> bool:
    """Take one report; False when it says nothing new. States only move forward."""
    if _ORDER.index(report.state.value) <= _ORDER.index(known_state):
        return False
    with ctx.db.autocommit() as tx:
        owner = containers.owner(tx, UUID(report.id), agent_id)
    if owner is None:
        raise Invalid(f"container {report.id} is not on agent {agent_id}")
    allocation_id = owner.allocation_id
    if owner.experiment_id is not None and owner.trial_id is not None:
        with live.locked_experiment(ctx, owner.experiment_id) as experiment:
            allocation = _apply(experiment.change, allocation_id, report)
            if allocation is None:
                return False
            exit = _end_if_over(experiment.change, allocation)
            trial = trials.by_id(experiment.tx, owner.trial_id)
            if exit is not None and trial is not None:
                experiment.allocation_ended(trial, exit)
        return True
    with change(ctx) as changed:
        allocation = _apply(changed, allocation_id, report)
        if allocation is None:
            return False
        exit = _end_if_over(changed, allocation)
        if exit is not None:
            lifecycle.allocation_ended(changed, allocation, exit)
    return True


def _apply(change: Change, allocation_id: str, report: Report) -> AllocationRow | None:
    """Apply a report; None when a later one was taken meanwhile: two of one agent's polls may come in either order."""
    tx = change.tx
    allocation = allocations.lock(tx, allocation_id)
    assert allocation is not None
    newer = containers.report(
        tx,
        {
            "id": UUID(report.id), "epoch": report.epoch, "state": report.state.value, "now": change.now,
            "address": report.address, "runtime_id": report.runtime_id,
            "host_ports": None if report.host_ports is None else as_json(report.host_ports),
            "exit_code": report.exit_code, "failure": report.failure, "message": report.message,
        },
    )  # fmt: skip
    if not newer:
        return None
    if report.terminated:
        slots.release_container(tx, UUID(report.id))
        change.queue_changed(allocation.pool)
    change.allocation_changed(allocation_id)
    return allocation


def _end_if_over(change: Change, allocation: AllocationRow) -> Exit | None:
    """Advance the allocation's state to that of its containers.

    The first failure kills the others, the last exit ends it.
    """
    if allocation.state is AllocationState.TERMINATED:
        return None
    tx = change.tx
    found = containers.of_allocation(tx, allocation)
    gating = [c for c in found if not c.daemon] or found
    state = state_of([c.state for c in gating])
    if state is AllocationState.TERMINATED and all(
        c.state is ContainerState.TERMINATED for c in found
    ):
        exit = classify(
            containers.exits(tx, allocation),
            killed_before_exit=allocation.kill_before_exit,
            preempt_acked=allocation.preemptible and allocation.preempt_acked,
        )
        stopping.end(change, allocation, exit)
        return exit
    if state is AllocationState.TERMINATED:
        state = AllocationState.TERMINATING
        allocations.kill(tx, allocation.id, "its other containers have ended")
        stopping.announce(change, allocation)
    elif any(c.state is ContainerState.TERMINATED and _failed(c) for c in found):
        allocations.kill(tx, allocation.id, "another of its containers failed")
        stopping.announce(change, allocation)
    allocations.progress(tx, allocation.id, state, change.now)
    return None


def _failed(container: ContainerRow) -> bool:
    return bool(container.exit_code) or container.failure is not None


def agent_lost(ctx: Context, agent_id: str, lost: list[UUID], message: str) -> None:
    """End the containers of a lost agent, as far as we will ever know; their epoch keeps them from coming back."""
    for container_id in lost:
        with ctx.db.autocommit() as tx:
            row = containers.epoch_and_state(tx, container_id)
        if row is not None:
            epoch, state = row
            ended = Report(
                str(container_id), epoch, ContainerState.TERMINATED,
                failure="agent_lost", message=message,
            )  # fmt: skip
            report(ctx, agent_id, ended, state)
