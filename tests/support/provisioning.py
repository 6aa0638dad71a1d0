"""Pools with machines of a cloud in one line, with the defaults that do not matter."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.provision.decide import decide
from det_controlplane.core.provision.model import (
    Cooldown,
    Demand,
    Limits,
    Machine,
    PoolSnapshot,
    ProvisionPlan,
    ProvisionSnapshot,
)
from det_controlplane.core.provision.offers import Capacity, Offer, Scope

NOW = 1_790_000_000.0
GENEROUS = Limits(max_instances=1_000)


def offer(slots: int, price: float | str | Decimal, **more: Any) -> Offer:
    """Make an offer: `offer(4, 5.67)` is an on-demand machine of four slots, of a type named after them."""
    new_offer = Offer(
        "aws",
        "us-east-1",
        "us-east-1a",
        f"gpu.{slots}x",
        Capacity.ON_DEMAND,
        slots,
        Decimal(str(price)),
    )
    return replace(new_offer, **more)


def spot(slots: int, price: float | str | Decimal, **more: Any) -> Offer:
    return offer(slots, price, capacity=Capacity.SPOT, **more)


def demand(id: str, slots: int, **more: Any) -> Demand:
    return Demand(id, more.pop("job_id", id), slots, NOW, **more)


def wants(*slots: int, **more: Any) -> tuple[Demand, ...]:
    """Demand in the order of the queue: `wants(4, 1)` is `d1` of four slots before `d2` of one."""
    return tuple(demand(f"d{n}", size, **more) for n, size in enumerate(slots, start=1))


def machine(id: str, offer: Offer, **more: Any) -> Machine:
    """Return an idle machine with a joined agent."""
    new_machine = Machine(
        id, "pool", offer, MachineState.REGISTERED, NOW - 900, NOW - 890, NOW - 800,
        takes_work=True, idle_since=NOW - 60,
    )  # fmt: skip
    new_machine = replace(new_machine, **more)
    works = new_machine.used_slots or new_machine.aux_used
    return (
        replace(new_machine, idle_since=None) if works and "idle_since" not in more else new_machine
    )


def starting(id: str, offer: Offer, **more: Any) -> Machine:
    """Return a machine in the cloud without a joined agent."""
    state = more.pop("state", MachineState.LAUNCHED)
    return Machine(id, "pool", offer, state, NOW - 40, NOW - 30, **more)


def pool(
    offers: Sequence[Offer],
    demand: Iterable[Demand] = (),
    machines: Iterable[Machine] = (),
    limits: Limits = GENEROUS,
    **more: Any,
) -> PoolSnapshot:
    return PoolSnapshot("pool", limits, tuple(offers), tuple(demand), tuple(machines), **more)


def plan(
    pool: PoolSnapshot,
    cooldowns: Iterable[Cooldown] = (),
    interruptions: Iterable[tuple[Scope, float]] = (),
) -> ProvisionPlan:
    return decide(ProvisionSnapshot((pool,), tuple(cooldowns), tuple(interruptions)), NOW)


def rented(plan: ProvisionPlan) -> list[str]:
    """Return the machine types that a plan launches, sorted."""
    return sorted(launch.offers[0].machine_type for launch in plan.launch)


def ended(plan: ProvisionPlan) -> dict[str, str]:
    return {machine_id: reason.value for machine_id, reason in plan.terminate}


def drained(plan: ProvisionPlan) -> dict[str, str]:
    return {machine_id: reason.value for machine_id, reason in plan.drain}


def applied(pool: PoolSnapshot, plan: ProvisionPlan, ids: Iterable[int] = count(1)) -> PoolSnapshot:
    """Return the pool after the plan's intents were written, without further changes."""
    removed_ids = {machine_id for machine_id, _ in plan.terminate}
    draining = {machine_id for machine_id, _ in plan.drain}
    machines = [
        replace(m, state=MachineState.DRAINING, takes_work=False) if m.id in draining else m
        for m in pool.machines
        if m.id not in removed_ids
    ]
    new = [
        Machine(
            f"new-{n}",
            pool.name,
            launch.offers[0],
            MachineState.REQUESTED,
            NOW,
            purpose=launch.purpose,
        )
        for n, launch in zip(ids, plan.launch, strict=False)
    ]
    return replace(pool, machines=(*machines, *new))
