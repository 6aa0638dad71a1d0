"""The price of a gang beside free machines, compared with every possible set of machines."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import combinations_with_replacement

from det_controlplane.core.placement.model import Agent
from det_controlplane.core.provision.model import Demand, Machine
from det_controlplane.core.provision.offers import Offer
from det_controlplane.core.schedule import Job, PoolSettings, PoolSnapshot, Request, Start
from det_controlplane.core.schedule import decide as schedule
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.provisioning import NOW, machine, offer, plan, pool, wants

_MOST_NEW = 4
_KINDS = st.tuples(st.sampled_from((1, 2, 4)), st.sampled_from(("us-east-1a", "us-west-2a")))
_PRICES = st.integers(1, 30).map(lambda tenths: Decimal(tenths) / 10)


@given(st.dictionaries(_KINDS, _PRICES, min_size=1, max_size=3), st.data())
@settings(max_examples=80, deadline=None)
def test_the_price_of_a_gang_beside_free_machines_is_within_five_percent_of_the_best(
    prices: dict[tuple[int, str], Decimal], data: st.DataObject
) -> None:
    offers = [offer(n, price, zone=zone, region=zone[:-1]) for (n, zone), price in prices.items()]
    largest = max(o.slots for o in offers)
    alone = data.draw(st.lists(st.sampled_from((1, 2, largest)), max_size=2))
    slots = data.draw(st.permutations((largest * data.draw(st.sampled_from((2, 3))), *alone)))
    demand = [replace(one, single_agent=one.slots <= largest) for one in wants(*slots)]
    kinds = data.draw(st.lists(st.sampled_from(offers), max_size=3))
    free = [machine(f"m{n}", kind) for n, kind in enumerate(kinds)]
    # Fitting work has started before any machine is rented.
    starts = starting(demand, agents_of(free))
    started_ids = {start.allocation_id for start in starts}
    waiting = [one for one in demand if one.allocation_id not in started_ids]
    there = [replace(m, used_slots=used(starts)[m.id]) for m in free]
    best = best_price(offers, waiting, there)
    if best is not None:
        paid = sum(x.offers[0].price_usd_hour for x in plan(pool(offers, waiting, there)).launch)
        assert paid <= best * Decimal("1.05")


def best_price(
    offers: Sequence[Offer], demand: Sequence[Demand], there: Sequence[Machine]
) -> Decimal | None:
    """Try every set of a few more machines, and let the scheduler say whether it will do."""
    best: Decimal | None = None
    for count in range(_MOST_NEW + 1):
        for combination in combinations_with_replacement(offers, count):
            price = sum((o.price_usd_hour for o in combination), Decimal(0))
            if best is None or price < best:
                new = [Agent(f"new{n}", o.slots, place=o.place) for n, o in enumerate(combination)]
                if len(starting(demand, [*agents_of(there), *new])) == len(demand):
                    best = price
    return best


def agents_of(machines: Sequence[Machine]) -> list[Agent]:
    return [Agent(m.id, m.offer.slots, m.used_slots, place=m.offer.place) for m in machines]


def starting(demand: Sequence[Demand], agents: Sequence[Agent]) -> tuple[Start, ...]:
    pending = tuple(
        Request(one.allocation_id, Job(42, n, one.job_id, 1.0, None, 0.0), one.slots, NOW, one.single_agent)
        for n, one in enumerate(demand)
    )  # fmt: skip
    return schedule(PoolSnapshot(PoolSettings(), tuple(agents), pending, ()), NOW).start


def used(starts: Sequence[Start]) -> Counter[str]:
    """Return the slots that were given on each agent."""
    counts = Counter[str]()
    for start in starts:
        counts.update({placement.agent_id: placement.slots for placement in start.placements})
    return counts
