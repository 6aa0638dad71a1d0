"""Store reports of agents about containers, and advance the allocations accordingly."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from det_controlplane.core.lifecycle.agent import LEASE, AgentState
from det_controlplane.core.lifecycle.allocation import (
    AllocationState,
    ContainerState,
    Exit,
    Failure,
    classify,
    excuse_lost_peers,
    state_of,
)
from det_controlplane.db.agents import agents, lost_runs
from det_controlplane.db.engine.database import as_json
from det_controlplane.db.people import sessions
from det_controlplane.db.scheduling import allocations, slots
from det_controlplane.db.scheduling.allocations import AllocationRow
from det_controlplane.db.tasks import containers
from det_controlplane.db.tasks.containers import ContainerRow, LostContainer, SilentContainer
from det_controlplane.db.trials import trials
from det_controlplane.services.agents import container_spec
from det_controlplane.services.agents.reconnect_waits import reconnect_wait
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import live
from det_controlplane.services.identity.authentication import token_hash
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.tasks import lifecycle
from det_controlplane.services.use_case import Change, change

# How long reports of a lost run are waited for: while its agent is away, and after it has joined again.
LONGEST_ABSENCE, LATE_REPORTS = timedelta(days=7), timedelta(days=1)
# A held poll is answered at once when its containers are to be killed; otherwise agents pause for up to 10 s.
HELD_POLL, PAUSED_POLL = timedelta(seconds=3), timedelta(seconds=12)
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
    data_s: float | None = None

    @property
    def terminated(self) -> bool:
        return self.state is ContainerState.TERMINATED

    @property
    def has_failed(self) -> bool:
        return self.terminated and bool(self.exit_code or self.failure)


def report(ctx: Context, agent_id: str, report: Report, known_state: str) -> bool:
    """Store one report; return False if it contains no change. States only move forward."""
    if _ORDER.index(report.state.value) <= _ORDER.index(known_state):
        return False
    return _take(ctx, agent_id, report, lambda change: True)


def _take(ctx: Context, agent_id: str, report: Report, prepare: Callable[[Change], bool]) -> bool:
    """Store a report and apply its effects, unless `prepare` returns False, under the locks, for an outdated report."""
    with ctx.db.autocommit() as tx:
        owner = containers.owner(tx, UUID(report.id), agent_id)
    if owner is None:
        return False  # its run was withdrawn, or deleted, since the caller read it
    allocation_id = owner.allocation_id
    if owner.experiment_id is not None and owner.trial_id is not None:
        with live.locked_experiment(ctx, owner.experiment_id) as experiment:
            allocation = _apply(experiment.change, allocation_id, report, prepare)
            if allocation is None:
                return False
            exit = advance(experiment.change, allocation)
            if exit is None and report.has_failed and allocation.min_slots is not None:
                _expect_polls(ctx, experiment.change, allocation)
            trial = trials.by_id(experiment.tx, owner.trial_id)
            if exit is not None and trial is not None:
                experiment.allocation_ended(trial, exit)
        return True
    with change(ctx) as changed:
        allocation = _apply(changed, allocation_id, report, prepare)
        if allocation is None:
            return False
        exit = advance(changed, allocation)
        if exit is not None:
            lifecycle.allocation_ended(changed, allocation, exit)
    return True


def _apply(
    change: Change, allocation_id: str, report: Report, prepare: Callable[[Change], bool]
) -> AllocationRow | None:
    """Apply a report; None when a later one was taken meanwhile: two of one agent's polls may come in either order."""
    tx = change.tx
    if not prepare(change):
        return None
    allocation = allocations.lock(tx, allocation_id)
    if allocation is None:
        return None  # withdrawn meanwhile
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
    if report.data_s is not None:
        allocations.record_data_time(tx, allocation_id, report.data_s)
    if report.terminated:
        slots.release_container(tx, UUID(report.id))
        change.queue_changed(allocation.pool)
    change.allocation_changed(allocation_id)
    return allocation


def advance(change: Change, allocation: AllocationRow) -> Exit | None:
    """Advance the allocation's state to the state of its containers.

    The first failure kills the other containers. The last exit ends the allocation."""
    if allocation.state is AllocationState.TERMINATED:
        return None
    tx = change.tx
    rows = containers.of_allocation(tx, allocation)
    gating = [c for c in rows if not c.daemon] or rows
    state = state_of([c.state for c in gating])
    if state is AllocationState.TERMINATED and all(
        c.state is ContainerState.TERMINATED for c in rows
    ):
        exits = containers.exits(tx, allocation)
        exit = classify(
            exits if allocation.min_slots is None else excuse_lost_peers(exits),
            killed_before_exit=allocation.kill_before_exit,
            preempt_acked=allocation.preemptible and allocation.preempt_acked,
        )
        stopping.end(change, allocation, exit)
        return exit
    if state is AllocationState.TERMINATED:
        state = AllocationState.TERMINATING
        allocations.kill(tx, allocation.id, "its other containers have ended")
        stopping.announce(change, [allocation])
    elif any(c.state is ContainerState.TERMINATED and _has_failed(c) for c in rows):
        allocations.kill(tx, allocation.id, "another of its containers failed")
        stopping.announce(change, [allocation])
    allocations.progress(tx, allocation.id, state, change.now)
    return None


def _expect_polls(ctx: Context, change: Change, allocation: AllocationRow) -> None:
    """Give the other agents of a failed elastic gang a moment to answer: `end_silent_ranks` acts on silent ones."""
    wait = HELD_POLL if ctx.host.may_wait_s > 0 else PAUSED_POLL
    allocations.expect_polls(change.tx, allocation.id, change.now + wait)
    change.wake("schedule")


def _has_failed(container: ContainerRow) -> bool:
    return bool(container.exit_code) or container.failure is not None


def end_with_agent(ctx: Context, agent_id: str, container_ids: Iterable[UUID]) -> None:
    """End the containers of a lost agent. Reports that wait on its machine are taken when it has joined again."""

    def prepare(change: Change, lost: LostContainer) -> bool:
        if not agents.is_lost(change.tx, agent_id):
            return False  # it has joined again meanwhile
        if lost_runs.is_awaited(change.tx, lost.id, change.now):
            return False  # its run was revived meanwhile and waits for the agent
        _keep_token(ctx, change, lost, LONGEST_ABSENCE, waits_for_agent=agent_id)
        return True

    _end_all(ctx, agent_id, container_ids, f"agent {agent_id} was lost", prepare)


def end_silent_ranks(ctx: Context) -> None:
    """End the containers of failed elastic gangs on agents that have not polled since the failure.

    The gang then starts again on its other agents, without waiting for the end of the lease. A silent agent gets no new
    work. It stops its container when it polls again, because no answer lists the container."""
    with ctx.db.autocommit() as tx:
        due = {id: containers.silent_of(tx, id) for id in allocations.polls_due(tx, ctx.now())}
    for allocation_id, silent in due.items():
        for container in silent:
            prepare = partial(_suspect_agent, ctx, container)
            message = (
                f"agent {container.agent_id} does not answer after the failure of another rank"
            )
            _end_all(ctx, container.agent_id, [container.id], message, prepare)
        with change(ctx) as changed:
            allocations.stop_expecting_polls(changed.tx, allocation_id)


def _suspect_agent(
    ctx: Context, container: SilentContainer, change: Change, lost: LostContainer
) -> bool:
    """Make the agent of a container suspect, unless it has polled meanwhile."""
    agent = agents.suspect_if_silent(change.tx, container.agent_id, container.failed_at, change.now)
    if agent is None:
        return False
    if agent.state is AgentState.SUSPECT:
        wait = LEASE + reconnect_wait(ctx, agent.pool)
        agents.set_overdue(change.tx, agent.id, AgentState.SUSPECT, change.now + wait)
    _keep_token(ctx, change, lost, LATE_REPORTS)
    return True


def end_missing(ctx: Context, agent_id: str, container_ids: Iterable[UUID]) -> None:
    """End containers that their agent no longer has. Their last reports may still wait on its disk."""

    def prepare(change: Change, lost: LostContainer) -> bool:
        _keep_token(ctx, change, lost, LATE_REPORTS)
        return True

    message = f"agent {agent_id} no longer has the container"
    _end_all(ctx, agent_id, container_ids, message, prepare)


def _end_all(
    ctx: Context,
    agent_id: str,
    container_ids: Iterable[UUID],
    message: str,
    prepare: Callable[[Change, LostContainer], bool],
) -> None:
    for container_id in container_ids:
        with ctx.db.autocommit() as tx:
            lost = containers.lost(tx, container_id)
        if lost is None or lost.state is ContainerState.TERMINATED:
            continue
        ended = Report(
            str(container_id), lost.epoch, ContainerState.TERMINATED,
            failure=Failure.AGENT_LOST.value, message=message,
        )  # fmt: skip
        _take(ctx, agent_id, ended, partial(_prepared, prepare, lost))


def _prepared(
    prepare: Callable[[Change, LostContainer], bool], lost: LostContainer, change: Change
) -> bool:
    return prepare(change, lost)


def _keep_token(
    ctx: Context,
    change: Change,
    lost: LostContainer,
    time: timedelta,
    waits_for_agent: str | None = None,
) -> None:
    """Let the token of a lost container live on for its late reports; other tokens end with their allocation."""
    token = container_spec.token_of(ctx, lost.id, lost.epoch, lost.peer_key)
    sessions.keep_for_late_reports(change.tx, token_hash(token), change.now + time, waits_for_agent)
