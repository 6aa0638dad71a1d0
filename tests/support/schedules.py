"""Pools in one line: agents, jobs, requests and running allocations with the defaults that do not matter."""

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from det_controlplane.core.config.pools import DEFAULT_PRIORITY
from det_controlplane.core.placement.model import Agent, Placement
from det_controlplane.core.schedule import (
    Job,
    PoolSettings,
    PoolSnapshot,
    Request,
    Running,
    SchedulePlan,
    decide,
)

NOW = 100.0


def agent(id: str, slots: int, used: int = 0, **more: Any) -> Agent:
    return Agent(id, slots, used)._replace(**more)


def agents(*slots: int) -> tuple[Agent, ...]:
    return tuple(Agent(f"a{n}", size) for n, size in enumerate(slots, start=1))


def job(
    id: str,
    priority: int = DEFAULT_PRIORITY,
    *,
    position: Decimal | int = 0,
    weight: float = 1,
    max_slots: int | None = None,
) -> Job:
    return Job(priority, position, id, weight, max_slots, float(position))


def request(id: str, slots: int, job_id: str | None = None, **more: Any) -> Request:
    new_request = Request(id, job(job_id or id), slots, 0.0)
    return replace(new_request, **more)


def running(id: str, job_id: str | None = None, /, **on: int) -> Running:
    """Make a running request: `running("t1", a1=4)` has 4 slots of agent a1."""
    seats = tuple(Placement(agent_id, slots) for agent_id, slots in on.items())
    return Running(id, job(job_id or id), sum(on.values()), seats, True, False, 0.0)


def pool(
    agents: Iterable[Agent],
    *,
    pending: Iterable[Request] = (),
    running: Iterable[Running] = (),
    jobs: Iterable[Job] | None = None,
    max_slots_per_launch: int | None = None,
    **settings: Any,
) -> PoolSnapshot:
    """Create a pool. Agents are empty at first, and running work is added to them. Other jobs have the default
    priority."""
    pending, running, jobs_by_id = tuple(pending), tuple(running), {j.id: j for j in jobs or ()}
    asking = [*(r.job.id for r in running), *(r.job.id for r in pending)]
    missing = dict.fromkeys(id for id in asking if id not in jobs_by_id)
    jobs_by_id |= {id: job(id, position=n) for n, id in enumerate(missing, start=1)}
    return PoolSnapshot(
        PoolSettings(**settings),
        tuple(_loaded(a, running) for a in agents),
        tuple(replace(r, job=jobs_by_id[r.job.id]) for r in pending),
        tuple(replace(r, job=jobs_by_id[r.job.id]) for r in running),
        max_slots_per_launch,
    )


def starts(plan: SchedulePlan) -> dict[str, dict[str, int]]:
    return {s.allocation_id: {p.agent_id: p.slots for p in s.placements} for s in plan.start}


def started(snapshot: PoolSnapshot) -> set[str]:
    return {s.allocation_id for s in decide(snapshot, NOW).start}


def preempted(snapshot: PoolSnapshot) -> list[str]:
    return [p.allocation_id for p in decide(snapshot, NOW).preempt]


def apply(snapshot: PoolSnapshot, plan: SchedulePlan) -> PoolSnapshot:
    """Return the pool after the plan took effect and before anything else happened."""
    requests = {r.allocation_id: r for r in snapshot.pending}
    leaving = {p.allocation_id for p in plan.preempt}
    new = [_began(requests[s.allocation_id], s.placements) for s in plan.start]
    still_running = [
        replace(r, releasing=True) if r.allocation_id in leaving else r for r in snapshot.running
    ]
    started_ids = {s.allocation_id for s in plan.start}
    return replace(
        snapshot,
        agents=tuple(_loaded(a, new) for a in snapshot.agents),
        pending=tuple(r for r in snapshot.pending if r.allocation_id not in started_ids),
        running=(*still_running, *new),
    )


def end(snapshot: PoolSnapshot, *ids: str) -> PoolSnapshot:
    """Return the pool after these running allocations have exited."""
    ended_jobs = [r for r in snapshot.running if r.allocation_id in ids]
    return replace(
        snapshot,
        agents=tuple(_loaded(a, ended_jobs, sign=-1) for a in snapshot.agents),
        running=tuple(r for r in snapshot.running if r.allocation_id not in ids),
    )


def _began(request: Request, placements: tuple[Placement, ...]) -> Running:
    return Running(
        request.allocation_id,
        request.job,
        sum(placement.slots for placement in placements),
        placements,
        request.preemptible,
        False,
        request.requested_at,
    )


def _loaded(agent: Agent, running: Iterable[Running], *, sign: int = 1) -> Agent:
    seats = [p.slots for r in running for p in r.placements if p.agent_id == agent.id]
    return agent._replace(
        used=agent.used + sign * sum(seats),
        aux_used=agent.aux_used + sign * sum(slots == 0 for slots in seats),
    )
