"""Decide on the machines of one pool."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.placement.model import Agent

from .cooldown import Cooldowns, hold_for
from .explain import Explainer
from .market import Market
from .model import Demand, Hold, Launch, Machine, PoolSnapshot, ProvisionReason, ProvisionSnapshot
from .offers import Offer
from .placing import DemandPlacement, agent_of, agent_to_rent, place_demand
from .purchases import RUNNING, Allowance, Basket, Purchase, Shopper, shape_of
from .upkeep import (
    broken_until,
    end_unwanted,
    idle_until,
    inspect,
    is_spare,
    is_starting,
    silent_until,
    since,
)

# Each round rents something or drops what nothing uses; the last one only sees that all finds room.
_MOST_ROUNDS = 12
# In a short queue, sets with more room are looked at where the cheapest one does not hold the demand.
_SHORT_QUEUE = 100
_MOST_SPARE = 16
_JOINED = (MachineState.REGISTERED, MachineState.DRAINING)
_NOTHING = Basket((), {}, float("inf"))


class RentedMachine(NamedTuple):
    """A machine to rent, with its agent as it will join."""

    offers: tuple[Offer, ...]
    agent: Agent


class PoolPass:
    """Fills in launches and reasons step by step."""

    def __init__(
        self,
        pool: PoolSnapshot,
        cluster: ProvisionSnapshot,
        cooldowns: Cooldowns,
        now: float,
    ) -> None:
        self._pool = pool
        self._now = now
        self._holds = _active(pool.holds, now) or _of_refusals(pool, cooldowns)
        self._limits = pool.limits
        if any(hold.of_budget for hold in self._holds):
            self._limits = replace(pool.limits, min_instances=0, warm_instances=0)
        self._market = Market(
            pool.offers, cooldowns, cluster.interruptions, now, cluster.prices_due
        )
        self.fleet = inspect(pool.machines, pool.limits, now)
        self._demand = [*_work_of_leaving(pool.machines), *pool.demand]
        machines = _with_room(self.fleet.staying)
        self._starting = {i: m for i, m in enumerate(machines) if is_starting(m)}
        self._agents = [agent_of(machine, pool.limits) for machine in machines]
        self._offers = [machine.offer for machine in machines]
        self._rented: list[RentedMachine] = []  # the machines to rent
        self._rented_at: dict[int, tuple[Offer, ...]] = {}  # the same by their place in the room
        self.launches: list[Launch] = []
        self.waiting: dict[str, ProvisionReason] = {}

    def run(self) -> None:
        """Decide in this order: what demand needs, what is kept for later, what is idle beyond that."""
        seating, basket = self._evaluate()
        for _ in range(_MOST_ROUNDS):
            purchases = self._roomy_enough(seating, basket).purchases or self._reserve(seating)
            if purchases:
                self._rent(purchases)
            elif not self._drop_unused(seating):
                break
            seating, basket = self._evaluate()
        needed = seating.used_ids
        waiting = frozenset(demand.allocation_id for demand in self._pool.demand)
        self._launch(seating)
        end_unwanted(self.fleet, needed, waiting, self._limits, self._now)
        self._explain(seating, basket)

    def times(self) -> Iterator[float]:
        """Yield when something is due though nothing happens."""
        for machine in self.fleet.staying:
            yield idle_until(machine, frozenset(), self._limits)
            if machine.state is MachineState.LAUNCHED:
                yield since(machine) + self._limits.max_starting_s
            yield broken_until(machine)
            yield silent_until(machine)
        for reason in self.waiting.values():
            if reason.next_try is not None:
                yield reason.next_try
        if self._pool.limits.min_instances or self._pool.limits.warm_instances:
            yield from (hold.until for hold in self._holds if hold.until is not None)

    def _evaluate(self) -> tuple[DemandPlacement, Basket]:
        """Seat the demand on the machines there are, and choose machines for what finds no room.

        What cannot get machines keeps lower priorities from starting, which then need none either.
        """
        demand = self._demand
        while True:
            seating = self._place(demand)
            if self._holds or not seating.unmet:
                return seating, _NOTHING
            basket = self._shopper(seating).buy(seating.unmet)
            startable = [
                one for one in demand if not one.slots or one.priority <= basket.blocked_above
            ]
            if len(startable) == len(demand):
                return seating, basket
            demand = startable

    def _roomy_enough(self, seating: DemandPlacement, basket: Basket) -> Basket:
        """Return the first set of machines on which all that it is for finds room, or else the cheapest."""
        if not basket.purchases or len(self._demand) > _SHORT_QUEUE:
            return basket
        shopper, rented = self._shopper(seating), list(self._rented)
        for spare in range(_MOST_SPARE):
            tried = shopper.buy(seating.unmet, spare)
            self._rent(tried.purchases)
            unmet = self._place(self._demand).unmet
            self._rented = list(rented)
            if all(tried.leaves_out(one) for one in unmet):
                return tried
        return basket

    def _shopper(self, seating: DemandPlacement) -> Shopper:
        offers = [*self._offers, *(machine.offers[0] for machine in self._rented)]
        return Shopper(self._market, seating, offers, self._limits, self._allowance())

    def _allowance(self) -> Allowance:
        most = self._limits.max_hourly_cost
        whole = Allowance(
            max(0, self._limits.max_instances - len(self.fleet.staying)),
            None if most is None else most - self.fleet.usd_hour,
        )
        return whole.less([Purchase(machine.offers, 1) for machine in self._rented])

    def _rent(self, purchases: Iterable[Purchase]) -> None:
        for purchase in purchases:
            agent = agent_to_rent(purchase.offers[0], self._limits)
            self._rented += [RentedMachine(purchase.offers, agent)] * purchase.machines

    def _place(self, demand: Iterable[Demand]) -> DemandPlacement:
        """Place demand on the machines of the pool and on the machines to rent."""
        agents = [*self._agents, *(machine.agent for machine in self._rented)]
        return place_demand(demand, agents, self._limits)

    def _reserve(self, seating: DemandPlacement) -> tuple[Purchase, ...]:
        """Return purchases for the minimum and the warm machines that are missing, as far as the limits allow."""
        best = self._market.any_machine
        if self._holds or best is None:
            return ()
        unused = sum(index not in seating.used for index in self._places())
        lacking = self._reserve_beyond(seating, len(self._rented) - unused) - unused
        limit = best.offer.price_usd_hour if self._limits.max_hourly_cost is not None else None
        offers, allowance = self._market.alternatives(best, limit), self._allowance()
        for machines in range(min(lacking, allowance.machines), 0, -1):
            purchase = Purchase(offers, machines)
            if allowance.exceeded_by([purchase]) is None:
                return (purchase,)
        return ()

    def _reserve_beyond(self, seating: DemandPlacement, rented: int) -> int:
        """Return how many machines are to be kept free besides those of the pool and so many that are rented."""
        needed = seating.used_ids
        spare = sum(is_spare(machine, needed) for machine in self.fleet.staying)
        here = len(self.fleet.staying) + rented
        return max(0, self._limits.min_instances - here, self._limits.warm_instances - spare)

    def _places(self) -> range:
        """Return the places in the room of the machines to rent."""
        return range(len(self._agents), len(self._agents) + len(self._rented))

    def _drop_unused(self, seating: DemandPlacement) -> bool:
        """Rent nothing that nothing uses, apart from the reserve; return whether that makes room under the limits."""
        used = [o for i, o in zip(self._places(), self._rented, strict=True) if i in seating.used]
        unused = [
            o for i, o in zip(self._places(), self._rented, strict=True) if i not in seating.used
        ]
        reserve = unused[: self._reserve_beyond(seating, len(used))]
        self._rented = [*used, *reserve]
        return len(reserve) < len(unused)

    def _launch(self, seating: DemandPlacement) -> None:
        """Launch each rented machine for the first demand that is placed there, and the reserve for none."""
        known = {demand.allocation_id for demand in self._pool.demand}
        first: dict[int, str] = {}
        for allocation_id, hosts in seating.agents_of.items():
            for index in hosts:
                first.setdefault(index, allocation_id if allocation_id in known else "")
        self._rented_at = {
            index: machine.offers
            for index, machine in zip(self._places(), self._rented, strict=True)
        }
        self.launches = [
            Launch(self._pool.name, offers, first.get(index, ""))
            for index, offers in self._rented_at.items()
        ]

    def _explain(self, seating: DemandPlacement, basket: Basket) -> None:
        usd_hour = self.fleet.usd_hour + sum(
            machine.offers[0].price_usd_hour for machine in self._rented
        )
        machines = len(self.fleet.staying) + len(self._rented)
        explainer = Explainer(self._pool.name, self._market, self._limits, machines, usd_hour)
        unmet = {one.allocation_id for one in seating.unmet}
        for demand in self._pool.demand:
            hosts = seating.agents_of.get(demand.allocation_id)
            if hosts is not None:
                reason = self._placed(hosts, explainer)
            elif demand.allocation_id in unmet and self._holds:
                reason = explainer.held(self._holds)
            elif demand.allocation_id in unmet:
                reason = explainer.unmet(demand, basket.refused.get(shape_of(demand)))
            elif demand.slots and demand.priority > basket.blocked_above:
                reason = explainer.unmet(demand, None)
            else:
                continue  # its job holds as many slots as it may
            if reason is not None:
                self.waiting[demand.allocation_id] = reason

    def _placed(self, hosts: Sequence[int], explainer: Explainer) -> ProvisionReason | None:
        """Explain what is awaited; nothing where the machines are there, and only the scheduler is."""
        new = [self._rented_at[index] for index in hosts if index in self._rented_at]
        if new:
            return explainer.launching(new)
        machines = [self._starting[index] for index in hosts if index in self._starting]
        return explainer.starting(machines) if machines else None


def _active(holds: Iterable[Hold], now: float) -> tuple[Hold, ...]:
    return tuple(hold for hold in holds if hold.until is None or hold.until > now)


def _of_refusals(pool: PoolSnapshot, cooldowns: Cooldowns) -> tuple[Hold, ...]:
    hold = hold_for(pool.offers, cooldowns)
    return () if hold is None else (hold,)


def _work_of_leaving(machines: Iterable[Machine]) -> Iterator[Demand]:
    """Yield the work on machines that a cloud takes back: it needs room before it has left."""
    for machine in machines:
        if machine.leaving_since is not None and machine.used_slots and machine.state in _JOINED:
            yield Demand(
                f"the work of {machine.id}", "", machine.used_slots, 0.0,
                single_agent=True, priority=RUNNING,
            )  # fmt: skip


def _with_room(machines: Iterable[Machine]) -> list[Machine]:
    """Return the machines that take work now or will, those that are there first."""
    there = [m for m in machines if m.state is MachineState.REGISTERED and m.takes_work]
    coming = sorted((m for m in machines if is_starting(m)), key=lambda m: (since(m), m.id))
    return [*there, *coming]
