"""Measure the CPU time of one decision about machines: `python bench/provision.py` prints JSON lines."""

import gc
import json
import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.provision.decide import decide
from det_controlplane.core.provision.model import (
    Cooldown,
    Demand,
    Limits,
    Machine,
    PoolSnapshot,
    ProvisionSnapshot,
    RefusalKind,
)
from det_controlplane.core.provision.offers import Capacity, Offer, Scope

from bench.schedule import COLLECT, cpu_ms

MACHINES, QUEUED = 1_000, 10_000
FLOOR_MS = 50.0
NOW = 1_790_000_000.0
TYPES = ((1, "1.006"), (1, "1.624"), (4, "5.672"), (8, "16.288"), (8, "32.773"))
REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-west-1", "eu-central-1")


def offers() -> tuple[Offer, ...]:
    """Return 200 offers: 5 types in 4 zones of 5 regions, spot and on-demand."""
    factors = {Capacity.SPOT: Decimal("0.4"), Capacity.ON_DEMAND: Decimal(1)}
    return tuple(
        Offer("aws", region, region + zone, f"type-{n}", capacity, slots, Decimal(price) * factor)
        for region in REGIONS
        for zone in "abcd"
        for n, (slots, price) in enumerate(TYPES)
        for capacity, factor in factors.items()
    )


def full(limits: Limits) -> ProvisionSnapshot:
    """Return a pool with 1,000 busy machines, 10,000 waiting allocations, and half of its offers recently refused."""
    random_ = random.Random(7)
    all_offers = offers()
    machines = tuple(
        Machine(
            f"m{n}", "pool", offer, MachineState.REGISTERED, NOW - 900, NOW - 890, NOW - 800,
            used_slots=offer.slots, takes_work=True,
        )
        for n, offer in enumerate(random_.choices(all_offers, k=MACHINES))
    )  # fmt: skip
    slots = random_.choices((0, 1, 1, 1, 2, 4, 8, 8, 16, 64), k=QUEUED)
    demand = tuple(
        Demand(f"{n}.{n}", f"job-{n}", slots[n], NOW - n, priority=n // 200) for n in range(QUEUED)
    )
    refused_offers = random_.sample(all_offers, len(all_offers) // 2)
    return ProvisionSnapshot(
        (PoolSnapshot("pool", limits, all_offers, demand, machines),),
        tuple(
            Cooldown(Scope.of(o), RefusalKind.NO_CAPACITY, NOW + 200, "no capacity")
            for o in refused_offers
        ),
        tuple((Scope.of(random_.choice(all_offers)), NOW - 60.0 * n) for n in range(200)),
    )


def main() -> None:
    gc.set_threshold(*COLLECT)
    some = Limits(max_instances=2 * MACHINES)
    runs: dict[str, ProvisionSnapshot] = {
        "provision_10k_queued_1k_machines_200_offers": full(some),
        "provision_10k_at_the_maximum": full(Limits(max_instances=MACHINES)),
        "provision_10k_without_a_maximum": full(Limits(max_instances=1_000_000)),
        "provision_10k_below_an_hourly_cost": full(
            replace(some, max_hourly_cost=Decimal(15_000), preemption=True)
        ),
    }
    for name, snapshot in runs.items():
        work: Callable[[], object] = partial(decide, snapshot, NOW)
        figure = {"name": name, "value": round(cpu_ms(work, 7), 2), "unit": "ms"}
        floor = FLOOR_MS if name == "provision_10k_queued_1k_machines_200_offers" else None
        print(json.dumps({**figure, "floor": floor, "better": "lower", "peer": None}), flush=True)


if __name__ == "__main__":
    main()
