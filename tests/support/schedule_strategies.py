"""Pools of every kind, loaded as a scheduler would have left them or worse."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from det_controlplane.core.placement.model import Agent, Placement
from det_controlplane.core.schedule import (
    Growth,
    Job,
    PoolSettings,
    PoolSnapshot,
    Request,
    Running,
    SchedulerType,
)
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

_SLOTS = st.sampled_from([0, 1, 1, 1, 2, 2, 3, 4, 6, 8, 12])


@st.composite
def pools(draw: Draw, scheduler: SchedulerType | None = None) -> PoolSnapshot:
    settings = PoolSettings(
        scheduler=draw(st.sampled_from(["priority", "fair_share", "round_robin"]))
        if scheduler is None
        else scheduler,
        preemption=draw(st.booleans()),
        fitting_policy=draw(st.sampled_from(["best", "worst"])),
        allow_heterogeneous_fits=draw(st.booleans()),
    )
    jobs = tuple(_job(draw, n) for n in range(draw(st.integers(1, 6))))
    agents = [_agent(draw, n) for n in range(draw(st.integers(0, 5)))]
    running = _load(draw, agents, jobs)
    pending = tuple(_request(draw, n, jobs, agents) for n in range(draw(st.integers(0, 8))))
    return PoolSnapshot(settings, tuple(agents), pending, running)


def _job(draw: Draw, n: int) -> Job:
    return Job(
        draw(st.sampled_from([1, 42, 42, 99])),
        Decimal(draw(st.integers(0, 4))),
        f"job{n}",
        draw(st.sampled_from([0.5, 1.0, 3.0])),
        draw(st.sampled_from([None, None, 1, 4])),
        float(n),
    )


def _agent(draw: Draw, n: int) -> Agent:
    state = draw(st.sampled_from(["open", "open", "open", "disabled", "draining"]))
    return Agent(
        f"a{n}",
        draw(st.sampled_from([0, 1, 2, 4, 4, 8])),
        aux_limit=draw(st.sampled_from([0, 1, 3])),
        enabled=state != "disabled",
        draining=state == "draining",
        place=draw(st.sampled_from(["", "", "aws us-east-1", "gcp us-central1"])),
    )


def _request(draw: Draw, n: int, jobs: tuple[Job, ...], agents: list[Agent]) -> Request:
    blocked = draw(st.sets(st.sampled_from([a.id for a in agents]))) if agents else set()
    slots = draw(_SLOTS)
    is_elastic = slots > 1 and draw(st.integers(0, 2)) == 0
    return Request(
        f"p{n}",
        draw(st.sampled_from(jobs)),
        slots,
        float(draw(st.sampled_from([0, 1, 2, 3, 4, 5, -1_000, -2_000]))),
        single_agent=draw(st.booleans()),
        preemptible=draw(st.sampled_from([True, True, False])),
        blocked_agents=frozenset(blocked if draw(st.integers(0, 3)) == 0 else ()),
        min_slots=draw(st.integers(1, slots)) if is_elastic else None,
    )


def _load(draw: Draw, agents: list[Agent], jobs: tuple[Job, ...]) -> tuple[Running, ...]:
    """Draw allocations on one or two agents, wherever there is room; mark the room as used in `agents`."""
    running = []
    for n in range(draw(st.integers(0, 8))):
        seats = []
        for at in draw(st.sets(st.integers(0, 4), min_size=1, max_size=2)):
            if at < len(agents) and (seat := _seat(draw, agents, at)) is not None:
                seats.append(seat)
        if not seats or (len(seats) > 1 and any(not s.slots for s in seats)):
            _leave(agents, seats)
            continue
        running.append(
            Running(
                f"r{n}",
                draw(st.sampled_from(jobs)),
                sum(s.slots for s in seats),
                tuple(seats),
                draw(st.sampled_from([True, True, False])),
                draw(st.sampled_from([False, False, True])),
                float(draw(st.integers(0, 5))),
                _growth(draw, sum(s.slots for s in seats)),
            )
        )
    return tuple(running)


def _growth(draw: Draw, slots: int) -> Growth | None:
    if not slots or draw(st.integers(0, 3)):
        return None
    started_at = draw(st.sampled_from([None, -1_000.0, 50.0]))
    return Growth(slots + draw(st.integers(1, 8)), started_at)


def _seat(draw: Draw, agents: list[Agent], at: int) -> Placement | None:
    agent = agents[at]
    slots = draw(st.integers(0, agent.slots - agent.used))
    if not slots and agent.aux_used >= agent.aux_limit:
        return None
    agents[at] = agent._replace(used=agent.used + slots, aux_used=agent.aux_used + (not slots))
    return Placement(agent.id, slots)


def _leave(agents: list[Agent], seats: list[Placement]) -> None:
    for seat in seats:
        at = next(n for n, a in enumerate(agents) if a.id == seat.agent_id)
        used, aux = agents[at].used - seat.slots, agents[at].aux_used - (not seat.slots)
        agents[at] = agents[at]._replace(used=used, aux_used=aux)
