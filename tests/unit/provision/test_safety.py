"""Safety properties of every pool with any offers, demand, machines and limits."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import combinations_with_replacement, count

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.placement.model import Agent
from det_controlplane.core.provision.model import (
    Cooldown,
    Demand,
    DrainReason,
    Limits,
    Machine,
    PoolSnapshot,
    ProvisionCode,
    RefusalKind,
)
from det_controlplane.core.provision.offers import Capacity, Offer, Scope
from det_controlplane.core.schedule import Job, PoolSettings, Request, Start
from det_controlplane.core.schedule import PoolSnapshot as Queue
from det_controlplane.core.schedule import decide as schedule
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.provisioning import (
    GENEROUS,
    NOW,
    applied,
    machine,
    offer,
    plan,
    pool,
    starting,
    wants,
)

SIZES = st.sampled_from((1, 2, 4, 8))
PRICES = st.integers(1, 60).map(lambda tenths: Decimal(tenths) / 10)
ZONES = st.sampled_from(("us-east-1a", "us-east-1b", "us-west-2a"))
OFFERS = st.lists(
    st.builds(
        lambda slots, price, zone, kind, capacity: offer(
            slots, price, zone=zone, region=zone[:-1], machine_type=f"{kind}.{slots}x", capacity=capacity
        ),
        SIZES, PRICES, ZONES, st.sampled_from("ab"), st.sampled_from(Capacity),
    ),
    min_size=1, max_size=6, unique_by=lambda o: Scope.of(o),
)  # fmt: skip
SLOTS = st.lists(st.sampled_from((0, 1, 1, 2, 3, 4, 8, 16)), max_size=8)


@st.composite
def machines(draw: st.DrawFn, offers: list[Offer]) -> tuple[Machine, ...]:
    found = []
    for n in range(draw(st.integers(0, 4))):
        which = draw(st.sampled_from(offers))
        if draw(st.booleans()):
            found.append(starting(f"m{n}", which))
            continue
        used = draw(st.integers(0, which.slots))
        idle = NOW - draw(st.sampled_from((10.0, 2_000.0)))
        leaving = draw(st.sampled_from((None, None, NOW - 5)))
        found.append(
            machine(
                f"m{n}",
                which,
                used_slots=used,
                idle_since=None if used else idle,
                leaving_since=leaving,
            )
        )
    return tuple(found)


LIMITS = st.builds(
    Limits,
    min_instances=st.integers(0, 2),
    max_instances=st.integers(2, 8),
    warm_instances=st.integers(0, 1),
    max_hourly_cost=st.none() | PRICES.map(lambda price: price * 3),
    max_aux_containers=st.sampled_from((0, 1, 100)),
    preemption=st.booleans(),
)


@st.composite
def pools(draw: st.DrawFn) -> PoolSnapshot:
    offers = draw(OFFERS)
    priorities = iter(sorted(draw(st.lists(st.sampled_from((40, 42)), min_size=8, max_size=8))))
    demand = (replace(d, priority=next(priorities)) for d in wants(*draw(SLOTS)))
    return pool(offers, demand, draw(machines(offers)), draw(LIMITS))


def remaining(pool: PoolSnapshot) -> list[Machine]:
    """Return the machines that count towards the pool's maximum."""
    return [m for m in pool.machines if m.leaving_since is None]


@given(pools())
def test_machines_never_exceed_max_instances(pool: PoolSnapshot) -> None:
    result = plan(pool)
    after = remaining(applied(pool, result))
    assert not result.launch or len(after) <= pool.limits.max_instances


@given(pools())
def test_cost_never_exceeds_max_hourly_cost(pool: PoolSnapshot) -> None:
    result = plan(pool)
    most = pool.limits.max_hourly_cost
    dearest = sum(max(o.price_usd_hour for o in launch.offers) for launch in result.launch)
    now = sum(m.offer.price_usd_hour for m in pool.machines)
    assert not result.launch or most is None or now + dearest <= most


@given(pools())
def test_second_decision_launches_no_more_machines(pool: PoolSnapshot) -> None:
    once = plan(pool)
    twice = plan(applied(pool, once))
    # Leaving machines make room for others under the limits.
    if not once.terminate and not once.drain:
        assert not twice.launch
        assert not twice.terminate


@given(pools())
def test_busy_machine_is_never_terminated(pool: PoolSnapshot) -> None:
    working = {m.id for m in pool.machines if m.used_slots or m.aux_used}
    assert not working & {machine_id for machine_id, _ in plan(pool).terminate}


@given(pools())
def test_every_request_without_free_slots_has_a_reason(pool: PoolSnapshot) -> None:
    result = plan(pool)
    purposes = {launch.purpose for launch in result.launch if launch.purpose}
    assert purposes <= set(result.waiting)
    free = sum(m.offer.slots - m.used_slots for m in pool.machines)
    for one in pool.demand:
        assert one.slots <= free or one.allocation_id in result.waiting


@given(OFFERS, SLOTS, st.data())
def test_request_never_gets_more_machines_than_it_needs(
    offers: list[Offer], slots: list[int], data: st.DataObject
) -> None:
    """A single slot never gets two machines, nor a gang more than its slots."""
    result = plan(pool(offers, wants(*slots), data.draw(machines(offers))))
    waiting = [one for one in wants(*slots) if one.allocation_id in result.waiting]
    sizes = sorted({o.slots for o in offers})
    most = sum(1 if one.slots <= sizes[-1] else one.slots // sizes[0] for one in waiting)
    assert len([x for x in result.launch if x.purpose]) <= most


@given(pools())
def test_machines_for_one_request_are_in_one_region(pool: PoolSnapshot) -> None:
    places: dict[str, set[str]] = {}
    for launch in plan(pool).launch:
        if launch.purpose:
            places.setdefault(launch.purpose, set()).update(o.place for o in launch.offers)
    assert all(len(agents) == 1 for agents in places.values())


@given(OFFERS, SLOTS, st.booleans(), st.integers(0, 99), st.data())
def test_scheduler_starts_requests_after_launched_machines_register(
    offers: list[Offer], slots: list[int], mixes: bool, naming: int, data: st.DataObject
) -> None:
    here = data.draw(machines(offers))
    limits = replace(GENEROUS, allow_heterogeneous_fits=mixes)
    now = started(wants(*slots), [agent(m, naming) for m in here if m.takes_work], mixes)
    waiting = tuple(one for one in wants(*slots) if one.allocation_id not in now)
    busy = tuple(replace(m, used_slots=m.offer.slots) if m.takes_work and now else m for m in here)
    snapshot = pool(offers, waiting, busy, limits)
    result = plan(snapshot)
    coming = (ProvisionCode.LAUNCHING, ProvisionCode.MACHINE_STARTING)
    promised_ids = {id for id, reason in result.waiting.items() if reason.code in coming}
    later = applied(snapshot, result)
    starts = starting_in(waiting, [agent(m, naming) for m in later.machines], mixes)
    late = promised_ids - {start.allocation_id for start in starts}
    if late:
        assert any(is_smaller_gang(start, later, naming) for start in starts)
        assert late <= started_by_the_next_pass(later, starts, naming, mixes)


def test_requests_displaced_by_a_gang_get_machines_at_the_next_pass() -> None:
    """A gang gets the fewest present machines, which other work may share."""
    small, large = offer(2, "0.1"), offer(4, "0.3")
    leaving = machine("m", large, used_slots=3, leaving_since=NOW - 5)
    snapshot = pool([offer(1, "0.1"), small, large], wants(16, 3, 3, 3), [leaving])
    later = applied(snapshot, plan(snapshot))
    starts = starting_in(snapshot.demand, [agent(m, 0) for m in later.machines])
    assert [start.allocation_id for start in starts] == ["d1"]
    assert is_smaller_gang(starts[0], later, 0)
    assert started_by_the_next_pass(later, starts, 0) == {"d2", "d3", "d4"}


def is_smaller_gang(start: Start, pool: PoolSnapshot, naming: int) -> bool:
    """Return whether the gang took machines that were not rented for it, and left its own."""
    own = {f"{naming}-{m.id}" for m in pool.machines if m.purpose == start.allocation_id}
    agent_ids = {placement.agent_id for placement in start.placements}
    return 1 < len(agent_ids) < len(own) and bool(agent_ids - own)


def started_by_the_next_pass(
    pool: PoolSnapshot, starts: Sequence[Start], naming: int, mixes: bool = False
) -> set[str]:
    """Return the work that starts on the machines of a second plan, beside the work of the first plan."""
    used: Counter[str] = Counter()
    for start in starts:
        used.update({placement.agent_id: placement.slots for placement in start.placements})
    machines = tuple(
        replace(m, used_slots=m.used_slots + used[agent(m, naming).id]) for m in pool.machines
    )
    started_ids = {start.allocation_id for start in starts}
    waiting = tuple(one for one in pool.demand if one.allocation_id not in started_ids)
    pool = replace(pool, machines=machines, demand=waiting)
    pool = applied(pool, plan(pool), count(100))
    return started(waiting, [agent(m, naming) for m in pool.machines], mixes)


def agent(machine: Machine, naming: int) -> Agent:
    """Return the machine's agent after it joined; its name is as good as any."""
    leaves = machine.leaving_since is not None or machine.state is MachineState.DRAINING
    return Agent(
        f"{naming}-{machine.id}", machine.offer.slots, machine.used_slots,
        draining=leaves, place=machine.offer.place,
    )  # fmt: skip


def started(demand: Sequence[Demand], agents: list[Agent], mixes: bool = False) -> set[str]:
    return {start.allocation_id for start in starting_in(demand, agents, mixes)}


def starting_in(
    demand: Sequence[Demand], agents: list[Agent], mixes: bool = False
) -> tuple[Start, ...]:
    """Return the work that the scheduler starts."""
    pending = tuple(
        Request(
            one.allocation_id,
            Job(42, n, one.job_id, 1.0, None, 0.0),
            one.slots,
            NOW,
            one.single_agent,
        )
        for n, one in enumerate(demand)
    )
    queue = Queue(PoolSettings(allow_heterogeneous_fits=mixes), tuple(agents), pending, ())
    return tuple(schedule(queue, NOW).start)


@given(OFFERS, st.lists(st.sampled_from((1, 2, 4, 8)), min_size=1, max_size=6), st.data())
def test_skipped_cheaper_offer_always_has_a_reason(
    offers: list[Offer], slots: list[int], data: st.DataObject
) -> None:
    cooling = data.draw(st.lists(st.sampled_from(offers), max_size=3, unique=True))
    cooldowns = [
        Cooldown(Scope.of(o), RefusalKind.NO_CAPACITY, NOW + 200, "no capacity") for o in cooling
    ]
    result = plan(pool(offers, wants(*slots)), cooldowns)
    for launch in result.launch:
        chosen_offer = launch.offers[0]
        for other in offers:
            if (
                other.slots == chosen_offer.slots
                and other.price_usd_hour < chosen_offer.price_usd_hour
            ):
                assert other in cooling
                assert "no capacity" in result.waiting[launch.purpose].sentence


@given(
    st.lists(st.tuples(SIZES, PRICES), min_size=1, max_size=3, unique_by=lambda o: o[0]),
    st.lists(st.sampled_from((1, 1, 2, 3, 4, 8)), min_size=1, max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_the_price_is_within_five_percent_of_the_best(
    types: list[tuple[int, Decimal]], slots: list[int]
) -> None:
    offers = [offer(size, price) for size, price in types]
    largest = max(size for size, _ in types)
    # Spread over machines only where none holds it: that is a matter of speed, not of price.
    demand = tuple(one for one in wants(*slots, single_agent=True) if one.slots <= largest)
    result = plan(pool(offers, demand))
    paid = sum(launch.offers[0].price_usd_hour for launch in result.launch)
    assert paid <= best_price(offers, demand) * Decimal("1.05")


def best_price(offers: list[Offer], demand: tuple[Demand, ...]) -> Decimal:
    """Try every set of at most as many machines as allocations, and let the scheduler say whether it will do."""
    prices: list[Decimal] = []
    ids = {one.allocation_id for one in demand}
    slot_total = sum(one.slots for one in demand)
    for machines in range(len(demand) + 1):
        for combination in combinations_with_replacement(offers, machines):
            if sum(o.slots for o in combination) < slot_total:
                continue
            if any(o.slots < min((d.slots for d in demand), default=0) for o in combination):
                continue
            price = sum((o.price_usd_hour for o in combination), Decimal(0))
            if prices and price >= min(prices):
                continue
            agents = [Agent(f"agent-{n}", o.slots) for n, o in enumerate(combination)]
            if started(demand, agents) == ids:
                prices.append(price)
    return min(prices)


def test_reclaimed_machine_is_replaced_immediately() -> None:
    busy = machine("m1", offer(4, 5), used_slots=4, leaving_since=NOW - 1)
    result = plan(pool([offer(4, 5)], machines=[busy]))
    assert [launch.offers[0].slots for launch in result.launch] == [4]
    assert result.drain[0] == ("m1", DrainReason.RECLAIMED)
