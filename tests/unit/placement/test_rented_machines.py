"""The provisioner rents exactly the machines on which the scheduler starts the work (ADR 24)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.placement.model import Agent, Placement
from det_controlplane.core.provision.model import Demand, Limits, Machine, ProvisionCode
from det_controlplane.core.provision.offers import Offer
from det_controlplane.core.schedule import (
    Job,
    PoolSettings,
    PoolSnapshot,
    Request,
    Running,
    Start,
    WaitCode,
    decide,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.provisioning import (
    NOW,
    applied,
    machine,
    offer,
    plan,
    pool,
    starting,
)
from tests.support.schedules import apply, end
from tests.support.thorough import often

many = settings(max_examples=often(60, 150), deadline=None)
COMING = (ProvisionCode.LAUNCHING, ProvisionCode.MACHINE_STARTING)


@dataclass(frozen=True)
class RentingPool:
    """A pool that rents machines, before a scheduling pass."""

    offers: tuple[Offer, ...]
    machines: tuple[Machine, ...]
    demand: tuple[Demand, ...]
    limits: Limits
    naming: int  # agents get other names, and so another order among equal agents


@st.composite
def renting_pools(draw: st.DrawFn) -> RentingPool:
    """Draw pools in which the names of agents do not matter: machines of one size, or no gangs."""
    sizes = draw(st.sampled_from([(4,), (2,), (1, 2, 4), (2, 8)]))
    offers = tuple(offer(size, draw(st.integers(1, 9))) for size in sizes)
    has_gangs = len(sizes) == 1
    slots = st.sampled_from([0, 1, 1, 2, 3, 4, 8] if has_gangs else [0, 1, 1, 2])
    priorities = sorted(draw(st.lists(st.sampled_from([40, 42]), max_size=8)))
    demand = tuple(
        Demand(f"d{n}", f"d{n}", draw(slots), NOW, not has_gangs, priority=priority)
        for n, priority in enumerate(priorities)
    )
    limits = Limits(
        max_instances=draw(st.sampled_from([3, 6, 1_000])),
        max_aux_containers=draw(st.sampled_from([1, 100])),
        fitting_policy=draw(st.sampled_from(["best", "worst"])) if has_gangs else "best",
        preemption=draw(st.booleans()),
    )
    return RentingPool(offers, draw(machines_of(offers)), demand, limits, draw(st.integers(0, 99)))


@st.composite
def machines_of(draw: st.DrawFn, offers: Sequence[Offer]) -> tuple[Machine, ...]:
    machines = []
    for n in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(offers))
        if draw(st.booleans()):
            machines.append(starting(f"m{n}", kind))
        else:
            machines.append(machine(f"m{n}", kind, used_slots=draw(st.integers(0, kind.slots))))
    return tuple(machines)


def agents_of(machines: Sequence[Machine], limits: Limits, naming: int) -> tuple[Agent, ...]:
    """Return the agents of machines that have joined."""
    return tuple(
        Agent(
            f"{naming}-{m.id}", m.offer.slots, m.used_slots, limits.max_aux_containers,
            m.aux_used, place=m.offer.place,
        )
        for m in machines
    )  # fmt: skip


def starts(
    demand: Sequence[Demand], machines: Sequence[Machine], limits: Limits, naming: int
) -> tuple[Start, ...]:
    """Return the work that the scheduler starts when these machines have joined."""
    pool_settings = PoolSettings(
        preemption=limits.preemption,
        fitting_policy=limits.fitting_policy,
        allow_heterogeneous_fits=limits.allow_heterogeneous_fits,
    )
    pending = tuple(request_of(one, n) for n, one in enumerate(demand))
    agents = agents_of(machines, limits, naming)
    return decide(PoolSnapshot(pool_settings, agents, pending, ()), NOW).start


def request_of(demand: Demand, position: int) -> Request:
    job = Job(demand.priority, position, demand.job_id, 1.0, None, 0.0)
    return Request(
        demand.allocation_id, job, demand.slots, NOW, demand.single_agent,
        blocked_agents=demand.blocked_agents,
    )  # fmt: skip


def occupied(
    machines: Sequence[Machine], started_starts: Sequence[Start], naming: int
) -> tuple[Machine, ...]:
    """Return the machines after work has started on them."""
    slots, containers = Counter[str](), Counter[str]()
    for agent_id, slot_count in (
        placement for start in started_starts for placement in start.placements
    ):
        slots[agent_id] += slot_count
        containers[agent_id] += not slot_count
    return tuple(
        replace(
            m,
            used_slots=m.used_slots + slots[f"{naming}-{m.id}"],
            aux_used=m.aux_used + containers[f"{naming}-{m.id}"],
        )
        for m in machines
    )


@many
@given(renting_pools())
def test_scheduler_starts_work_on_exactly_the_rented_machines(here: RentingPool) -> None:
    registered = [m for m in here.machines if m.state is MachineState.REGISTERED]
    now = starts(here.demand, registered, here.limits, here.naming)
    started_ids = {start.allocation_id for start in now}
    waiting = tuple(one for one in here.demand if one.allocation_id not in started_ids)
    snapshot = pool(here.offers, waiting, occupied(here.machines, now, here.naming), here.limits)
    result = plan(snapshot)
    after = applied(snapshot, result)
    later = starts(waiting, after.machines, here.limits, here.naming)

    reasons = result.waiting
    expected = {
        one.allocation_id
        for one in waiting
        if one.allocation_id not in reasons or reasons[one.allocation_id].code in COMING
    }
    assert {start.allocation_id for start in later} == expected
    used = {placement.agent_id for start in later for placement in start.placements}
    agent_ids = {f"{here.naming}-{m.id}" for m in after.machines if m.purpose}
    assert agent_ids <= used


@st.composite
def contested_pools(draw: st.DrawFn) -> tuple[PoolSnapshot, tuple[Offer, ...], Limits]:
    """Draw pools of several sizes and places with running victims, blocked agents and long waits."""
    places = [("us-east-1", "us-east-1a"), ("us-west-2", "us-west-2a")]
    offers = tuple(
        offer(size, draw(st.integers(1, 9)), region=region, zone=zone)
        for size in draw(st.sampled_from([(4,), (2, 4), (1, 8)]))
        for region, zone in places[: draw(st.integers(1, 2))]
    )
    limits = Limits(
        max_instances=1_000,
        preemption=draw(st.booleans()),
        allow_heterogeneous_fits=draw(st.booleans()),
        fitting_policy=draw(st.sampled_from(["best", "worst"])),
    )
    agents, running = [], []
    for n in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(offers))
        used = draw(st.sampled_from([0, 1, kind.slots]))
        agents.append(Agent(f"m{n}", kind.slots, used, place=kind.place))
        if used:
            job = Job(draw(st.sampled_from([41, 99])), n, f"r{n}", 1.0, None, 0.0)
            placements = (Placement(f"m{n}", used),)
            running.append(Running(f"r{n}", job, used, placements, True, False, 0.0))
    blocked = st.sets(st.sampled_from([a.id for a in agents])) if agents else st.just(set())
    pending = tuple(
        Request(
            f"d{n}",
            Job(draw(st.sampled_from([40, 42])), 10 + n, f"d{n}", 1.0, None, 0.0),
            draw(st.sampled_from([0, 1, 1, 2, 3, 4, 8, 16])),
            NOW - draw(st.sampled_from([0.0, 2_000.0])),
            draw(st.integers(0, 4)) == 0,
            True,
            frozenset(draw(blocked) if draw(st.booleans()) else ()),
        )
        for n in range(draw(st.integers(0, 6)))
    )
    pool_settings = PoolSettings(
        preemption=limits.preemption,
        fitting_policy=limits.fitting_policy,
        allow_heterogeneous_fits=limits.allow_heterogeneous_fits,
    )
    return PoolSnapshot(pool_settings, tuple(agents), pending, tuple(running)), offers, limits


@many
@given(contested_pools())
def test_requests_start_after_their_machines_joined_and_preempted_work_ended(
    contested: tuple[PoolSnapshot, tuple[Offer, ...], Limits],
) -> None:
    queue, offers, limits = contested
    promised_ids: set[str] = set()
    refused_ids: set[str] = set()
    for _ in range(2 * len(queue.pending) + 2):
        scheduled = decide(queue, NOW)
        queue = end(apply(queue, scheduled), *(p.allocation_id for p in scheduled.preempt))
        reserved = {
            id
            for id, reason in scheduled.waiting.items()
            if reason.code is WaitCode.WAITING_FOR_PREEMPTION
        }
        queue, coming, refused_ids = after_provisioning(queue, offers, limits, reserved)
        promised_ids |= coming
    waiting = {request.allocation_id for request in queue.pending}
    assert not promised_ids & waiting
    assert waiting == refused_ids


def after_provisioning(
    queue: PoolSnapshot, offers: Sequence[Offer], limits: Limits, reserved: set[str]
) -> tuple[PoolSnapshot, set[str], set[str]]:
    """Return the pool with newly rented machines, the allocations that wait for them, and the refused ones."""
    kinds = {(o.place, o.slots): o for o in offers}
    machines = [
        machine(a.id, kinds[a.place, a.slots], used_slots=a.used, aux_used=a.aux_used)
        for a in queue.agents
    ]
    in_order = sorted(queue.pending, key=lambda request: request.job)
    demand = [
        Demand(
            r.allocation_id, r.job.id, r.slots, r.requested_at, r.single_agent,
            priority=r.job.priority, blocked_agents=r.blocked_agents,
        )
        for r in in_order
        if r.allocation_id not in reserved
    ]  # fmt: skip
    result = plan(pool(offers, demand, machines, limits))
    first = len(queue.agents)
    new = tuple(
        Agent(f"m{n}", launch.offers[0].slots, place=launch.offers[0].place)
        for n, launch in enumerate(result.launch, start=first)
    )
    coming = {id for id, reason in result.waiting.items() if reason.code in COMING}
    return replace(queue, agents=(*queue.agents, *new)), coming, result.waiting.keys() - coming
