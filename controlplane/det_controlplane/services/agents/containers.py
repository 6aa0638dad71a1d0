"""What agents report about containers, and what it means for their allocations."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text

from det_controlplane.core.lifecycle.allocation import (
    AllocationState,
    ContainerState,
    Exit,
    classify,
    state_of,
)
from det_controlplane.db import allocations, slots, trials
from det_controlplane.db.allocations import AllocationRow
from det_controlplane.db.engine import Tx, as_json
from det_controlplane.services.context import Context
from det_controlplane.services.effects import Effects
from det_controlplane.services.errors import Invalid
from det_controlplane.services.experiments import live
from det_controlplane.services.scheduling import placement
from det_controlplane.services.tasks import auxiliary

_ORDER = tuple(s.value for s in ContainerState)

_FIND = text("SELECT allocation_id FROM containers WHERE id = :id AND agent_id = :agent_id")
_EXPERIMENT = text(
    "SELECT t.experiment_id, t.trial_id FROM allocations a JOIN tasks t ON t.id = a.task_id WHERE a.id = :id"
)
_UPDATE = text("""
    UPDATE containers SET state = cast(:state AS container_state), address = coalesce(:address, address),
        host_ports = CASE WHEN cast(:host_ports AS text) IS NULL THEN host_ports ELSE cast(:host_ports AS jsonb) END,
        runtime_id = coalesce(:runtime_id, runtime_id),
        exit_code = :exit_code, failure = :failure, message = :message,
        started_at = CASE WHEN :state = 'RUNNING' THEN coalesce(started_at, :now) ELSE started_at END,
        ended_at = CASE WHEN :state = 'TERMINATED' THEN cast(:now AS timestamptz) END
    WHERE id = :id AND epoch = :epoch AND state < cast(:state AS container_state)
""")
_PROGRESS = text("""
    UPDATE allocations SET state = cast(:state AS allocation_state),
        pull_started_at = CASE WHEN :state = 'PULLING' THEN coalesce(pull_started_at, :now) ELSE pull_started_at END,
        pull_ended_at = CASE WHEN :state IN ('STARTING', 'RUNNING') AND pull_started_at IS NOT NULL
                        THEN coalesce(pull_ended_at, :now) ELSE pull_ended_at END,
        started_at = CASE WHEN :state = 'RUNNING' THEN coalesce(started_at, :now) ELSE started_at END
    WHERE id = :id AND state <> 'TERMINATED' AND state <> 'WAITING'
""")


@dataclass(frozen=True, slots=True)
class Report:
    """One container as its agent sees it."""

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
    with ctx.db.begin() as tx:
        allocation_id = tx.execute(_FIND, {"id": UUID(report.id), "agent_id": agent_id}).scalar()
        if allocation_id is None:
            raise Invalid(f"container {report.id} is not on agent {agent_id}")
        owner = tx.execute(_EXPERIMENT, {"id": allocation_id}).first()
    assert owner is not None
    if owner.experiment_id is not None and owner.trial_id is not None:
        with live.opened(ctx, owner.experiment_id) as experiment:
            allocation = _apply(ctx, experiment.tx, experiment.effects, allocation_id, report)
            if allocation is None:
                return False
            exit = _end_if_over(ctx, experiment.tx, experiment.effects, allocation)
            trial = trials.by_id(experiment.tx, owner.trial_id)
            if exit is not None and trial is not None:
                experiment.allocation_ended(trial, exit)
        return True
    effects = Effects(ctx)
    with ctx.db.begin() as tx:
        allocation = _apply(ctx, tx, effects, allocation_id, report)
        if allocation is None:
            return False
        exit = _end_if_over(ctx, tx, effects, allocation)
        if exit is not None:
            auxiliary.allocation_ended(ctx, tx, effects, allocation, exit)
        effects.write(tx, ctx.now())
    effects.announce()
    return True


def _apply(
    ctx: Context, tx: Tx, effects: Effects, allocation_id: str, report: Report
) -> AllocationRow | None:
    """None when a later report was taken meanwhile: two of one agent's polls may come in either order."""
    allocation = allocations.lock(tx, allocation_id)
    assert allocation is not None
    now = ctx.now()
    newer = tx.execute(
        _UPDATE,
        {
            "id": UUID(report.id), "epoch": report.epoch, "state": report.state.value, "now": now,
            "address": report.address, "runtime_id": report.runtime_id,
            "host_ports": None if report.host_ports is None else as_json(report.host_ports),
            "exit_code": report.exit_code, "failure": report.failure, "message": report.message,
        },
    ).rowcount  # fmt: skip
    if not newer:
        return None
    if report.terminated:
        slots.release_container(tx, UUID(report.id))
        effects.queue_changed(allocation.pool)
    effects.allocation_changed(allocation_id)
    return allocation


def _end_if_over(ctx: Context, tx: Tx, effects: Effects, allocation: AllocationRow) -> Exit | None:
    """The allocation is as far as its containers; the first failure kills the rest; the last exit ends it."""
    if allocation.state is AllocationState.TERMINATED:
        return None
    found = allocations.containers(tx, allocation)
    gating = [c for c in found if not c.daemon] or found
    state = state_of([c.state for c in gating])
    if state is AllocationState.TERMINATED and all(
        c.state is ContainerState.TERMINATED for c in found
    ):
        exit = classify(
            allocations.exits(tx, allocation),
            killed_before_exit=allocation.kill_before_exit,
            preempt_acked=allocation.preemptible and allocation.preempt_acked,
        )
        placement.end(tx, effects, allocation, exit, ctx.now())
        return exit
    if state is AllocationState.TERMINATED:
        state = AllocationState.TERMINATING
        allocations.kill(tx, allocation.id, "its other containers have ended")
        placement.announce(tx, effects, allocation)
    elif any(c.state is ContainerState.TERMINATED and _failed(c) for c in found):
        allocations.kill(tx, allocation.id, "another of its containers failed")
        placement.announce(tx, effects, allocation)
    tx.execute(_PROGRESS, {"id": allocation.id, "state": state.value, "now": ctx.now()})
    return None


def _failed(container: allocations.ContainerRow) -> bool:
    return bool(container.exit_code) or container.failure is not None


def agent_lost(ctx: Context, agent_id: str, containers: list[UUID], message: str) -> None:
    """Its containers ended with it, as far as we will ever know; their epoch keeps them from coming back."""
    for container_id in containers:
        with ctx.db.begin() as tx:
            row = tx.execute(_EPOCH, {"id": container_id}).first()
        if row is not None:
            lost = Report(
                str(container_id), row.epoch, ContainerState.TERMINATED,
                failure="agent_lost", message=message,
            )  # fmt: skip
            report(ctx, agent_id, lost, row.state)


_EPOCH = text("SELECT epoch, state::text AS state FROM containers WHERE id = :id")
