"""Decide on the machines of one pool."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.placement.model import NO_MACHINE, Agent

from .cooldown import Cooldowns, hold_for
from .deadline_model import DeadlineDecision, Move
from .deadlines import DeadlineMarket, decide_deadline, demand_of_moves, move_id, with_decisions
from .explain import Explainer
from .market import Market
from .model import (
    Demand,
    Hold,
    Launch,
    Machine,
    PoolSnapshot,
    ProvisionCode,
    ProvisionReason,
    ProvisionSnapshot,
    TerminateReason,
    WarmDecision,
)
from .offers import Offer
from .placing import DemandPlacement, agent_of, agent_to_rent, place_demand
from .purchases import (
    LEAVING_WORK,
    Allowance,
    Purchase,
    PurchasePlan,
    PurchasePlanner,
    joined,
    shape_of,
)
from .upkeep import (
    broken_deadline,
    disconnect_deadline,
    idle_deadline,
    inspect,
    is_spare,
    is_starting,
    since,
    terminate_unneeded,
    warm_prices,
)
from .warm import MOST_DEARER, WarmChoice, WarmOffer, choose_warm

# A round rents machines or drops unused ones. The last round only finds that all demand fits.
_MOST_ROUNDS = 12
# For a short queue, sets with spare slots are tried if the cheapest set does not hold the demand.
_SHORT_QUEUE = 100
_MOST_SPARE = 16
_ELASTIC_STEPS = 16  # sizes that are tried for an elastic gang, from its maximum down
_JOINED = (MachineState.REGISTERED, MachineState.DRAINING)
_ENDS_OF_IDLE = (TerminateReason.IDLE, TerminateReason.NOT_WARM)
NO_PURCHASES = PurchasePlan((), {}, float("inf"))


class RentedMachine(NamedTuple):
    """A machine to rent, with its agent as it will join."""

    offers: tuple[Offer, ...]
    agent: Agent


class PoolPass:
    """Decides on the machines of one pool: `run` fills in `launches`, `changes` and `waiting`."""

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
        self.warm: WarmDecision | None = None
        self._warm_choice = self._choose_warm()
        self.changes = inspect(pool.machines, pool.limits, now)
        market = DeadlineMarket(self._market, cluster.spot_spells, pool.machines, pool.limits)
        self.deadlines = [decide_deadline(job, market, now) for job in pool.deadline_jobs]
        self.moves: list[Move] = []
        self._queue = with_decisions(pool.demand, self.deadlines)
        everything = [
            *_work_of_leaving(pool.machines, self.deadlines), *self._queue, *pool.growth,
            *demand_of_moves(self.deadlines),
        ]  # fmt: skip
        self._demand = [one for one in everything if one.capacity != NO_MACHINE]
        machines = _with_room(self.changes.staying)
        self._starting = {i: m for i, m in enumerate(machines) if is_starting(m)}
        self._agents = [agent_of(machine, pool.limits) for machine in machines]
        self._offers = [machine.offer for machine in machines]
        self._rented: list[RentedMachine] = []  # the machines to rent
        self._rented_at: dict[int, tuple[Offer, ...]] = {}  # the same by their place in the room
        self.launches: list[Launch] = []
        self.waiting: dict[str, ProvisionReason] = {}

    def run(self) -> None:
        """Rent machines for demand, then the minimum and warm machines, and terminate unneeded idle ones."""
        placement, purchase_plan = self._evaluate()
        for _ in range(_MOST_ROUNDS):
            purchases = self._with_spare(placement, purchase_plan).purchases or self._reserve(
                placement
            )
            if purchases:
                self._rent(purchases)
            elif not self._drop_unused(placement):
                break
            placement, purchase_plan = self._evaluate()
        used_ids = placement.used_ids
        waiting = frozenset(one.allocation_id for one in self._queue if one.capacity != NO_MACHINE)
        self._launch(placement)
        terminate_unneeded(
            self.changes, used_ids, waiting, self._limits, self._now, self._most_warm_usd_hour()
        )
        self._decide_warm(placement)
        self._explain(placement, purchase_plan)
        self._move(placement)

    def times(self) -> Iterator[float]:
        """Yield the times of further decisions without changes."""
        for machine in self.changes.staying:
            yield idle_deadline(machine, frozenset(), self._limits)
            if machine.state is MachineState.LAUNCHED:
                yield since(machine) + self._limits.max_starting_s
            yield broken_deadline(machine)
            yield disconnect_deadline(machine)
        yield from (decision.next_at for decision in self.deadlines)
        if self._warm_choice is not None and self._warm_choice.next_at is not None:
            yield self._warm_choice.next_at
        for reason in self.waiting.values():
            if reason.next_try is not None:
                yield reason.next_try
        if self._pool.limits.min_instances or self._pool.limits.warm_instances:
            yield from (hold.until for hold in self._holds if hold.until is not None)

    def _choose_warm(self) -> WarmChoice | None:
        """Choose the number of warm machines, which is a limit of this decision. A held pool keeps none."""
        policy, history, best = self._limits.warm_policy, self._pool.warm, self._market.any_machine
        if policy is None or history is None:
            return None
        holds = _active(self._pool.holds, self._now)
        if holds:
            choice = WarmChoice(0, f"no machine is kept warm: {holds[0].sentence}")
        elif best is None:
            choice = WarmChoice(0, "no machine is kept warm: no offer can be rented now")
        else:
            offer = WarmOffer(float(best.offer.price_usd_hour), best.offer.slots)
            choice = choose_warm(policy, history, offer, self._now)
        self._limits = replace(self._limits, warm_instances=choice.machines)
        return choice

    def _most_warm_usd_hour(self) -> Decimal:
        """Return the most that a machine may cost which is kept warm."""
        best = self._market.any_machine
        if self._warm_choice is None or best is None:
            return Decimal("Infinity")
        return best.offer.price_usd_hour * Decimal(MOST_DEARER)

    def _decide_warm(self, placement: DemandPlacement) -> None:
        """Set the decision about warm machines, with their cost from now on."""
        if self._warm_choice is None or self._pool.warm is None:
            return
        prices = warm_prices(self.changes.staying, placement.used_ids, self._limits, self._now)
        prices += [
            machine.offers[0].price_usd_hour
            for index, machine in zip(self._places(), self._rented, strict=True)
            if index not in placement.used
        ]
        # The minimum would exist anyway.
        most = len(self.changes.staying) + len(self.launches) - self._limits.min_instances
        usd_hour = float(sum(sorted(prices, reverse=True)[: max(0, most)]))
        idle_ids = {id for id, reason in self.changes.terminate if reason in _ENDS_OF_IDLE}
        ended_usd_hour = float(
            sum(m.offer.price_usd_hour for m in self._pool.machines if m.id in idle_ids)
        )
        ledger = self._pool.warm.ledger.until(self._now).costing(usd_hour, ended_usd_hour)
        self.warm = WarmDecision(self._pool.name, self._warm_choice, ledger)

    def _evaluate(self) -> tuple[DemandPlacement, PurchasePlan]:
        """Place the demand on the pool's machines, and plan purchases for demand that fits on none.

        Demand that is refused machines blocks lower priorities, which then get no machines either.
        """
        demand = self._demand
        while True:
            placement = self._place(demand)
            if self._holds or not placement.unmet:
                return placement, NO_PURCHASES
            purchase_plan = self._plan(placement)
            smaller = [_smaller_if_refused(one, purchase_plan) for one in demand]
            if smaller != demand:
                demand = smaller
                continue
            startable = [
                one
                for one in demand
                if not one.slots or one.priority <= purchase_plan.blocked_above
            ]
            if len(startable) == len(demand):
                return placement, purchase_plan
            demand = startable

    def _with_spare(self, placement: DemandPlacement, purchase_plan: PurchasePlan) -> PurchasePlan:
        """Return the first set of machines on which its demand fits, or else the cheapest set."""
        if not purchase_plan.purchases or len(self._demand) > _SHORT_QUEUE:
            return purchase_plan
        machines = list(self._rented)
        for spare in range(_MOST_SPARE):
            attempt = self._plan(placement, spare)
            self._rent(attempt.purchases)
            unmet = self._place(self._demand).unmet
            self._rented = list(machines)
            if all(attempt.excludes(one) for one in unmet):
                return attempt
        return purchase_plan

    def _plan(self, placement: DemandPlacement, spare: int = 0) -> PurchasePlan:
        """Plan purchases for the demand that fits on no machine.

        Demand that may use some offers only is planned apart. The limits go to the groups in the order of the queue.
        """
        offers = [*self._offers, *(machine.offers[0] for machine in self._rented)]
        groups: dict[tuple[str, str], list[Demand]] = {}
        for one in placement.unmet:
            groups.setdefault((one.capacity, one.first_offer), []).append(one)
        allowance, plans = self._allowance(), []
        for (capacity, first), group in groups.items():
            market = self._market.restricted(capacity, first)
            planner = PurchasePlanner(market, placement, offers, self._limits, allowance)
            plans.append(planner.plan(group, spare))
            allowance = allowance.less(plans[-1].purchases)
        return joined(plans)

    def _allowance(self) -> Allowance:
        most = self._limits.max_hourly_cost
        whole = Allowance(
            max(0, self._limits.max_instances - len(self.changes.staying)),
            None if most is None else most - self.changes.usd_hour,
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

    def _reserve(self, placement: DemandPlacement) -> tuple[Purchase, ...]:
        """Return purchases for missing minimum and warm machines, within the limits."""
        best = self._market.any_machine
        if self._holds or best is None:
            return ()
        unused = sum(index not in placement.used for index in self._places())
        lacking = self._reserve_beyond(placement, len(self._rented) - unused) - unused
        limit = best.offer.price_usd_hour if self._limits.max_hourly_cost is not None else None
        offers, allowance = self._market.alternatives(best, limit), self._allowance()
        for machines in range(min(lacking, allowance.machines), 0, -1):
            purchase = Purchase(offers, machines)
            if allowance.exceeded_by([purchase]) is None:
                return (purchase,)
        return ()

    def _reserve_beyond(self, placement: DemandPlacement, rented: int) -> int:
        """Return the number of missing minimum or warm machines if `rented` machines are added."""
        used_ids = placement.used_ids
        spare = sum(is_spare(machine, used_ids) for machine in self.changes.staying)
        here = len(self.changes.staying) + rented
        return max(0, self._limits.min_instances - here, self._limits.warm_instances - spare)

    def _places(self) -> range:
        """Return the indices of the agents of machines to rent."""
        return range(len(self._agents), len(self._agents) + len(self._rented))

    def _drop_unused(self, placement: DemandPlacement) -> bool:
        """Drop planned machines that are neither used nor part of the reserve. Return whether any was dropped."""
        used = [o for i, o in zip(self._places(), self._rented, strict=True) if i in placement.used]
        unused = [
            o for i, o in zip(self._places(), self._rented, strict=True) if i not in placement.used
        ]
        reserve = unused[: self._reserve_beyond(placement, len(used))]
        self._rented = [*used, *reserve]
        return len(reserve) < len(unused)

    def _launch(self, placement: DemandPlacement) -> None:
        """Launch each machine for the first demand placed on it; reserve machines have no purpose."""
        demand_ids = {demand.allocation_id for demand in self._pool.demand}
        first: dict[int, str] = {}
        zones: dict[int, str] = {}
        for allocation_id, agents in placement.agents_of.items():
            zone = next((self._offers[i].zone for i in agents if i < len(self._offers)), "")
            for index in agents:
                first.setdefault(index, allocation_id if allocation_id in demand_ids else "")
                zones.setdefault(index, zone)
        self._rented_at = {
            index: machine.offers
            for index, machine in zip(self._places(), self._rented, strict=True)
        }
        self.launches = [
            Launch(self._pool.name, _zone_first(offers, zones.get(index, "")), first.get(index, ""))
            for index, offers in self._rented_at.items()
        ]

    def _explain(self, placement: DemandPlacement, purchase_plan: PurchasePlan) -> None:
        usd_hour = self.changes.usd_hour + sum(
            machine.offers[0].price_usd_hour for machine in self._rented
        )
        machines = len(self.changes.staying) + len(self._rented)
        explainers = {
            key: Explainer(
                self._pool.name, self._market.restricted(*key), self._limits, machines, usd_hour
            )
            for key in {(one.capacity, one.first_offer) for one in self._queue}
        }
        sentences = {decision.job_id: decision.sentence for decision in self.deadlines}
        unmet = {one.allocation_id for one in placement.unmet}
        for demand in self._queue:
            explainer = explainers[demand.capacity, demand.first_offer]
            agents = placement.agents_of.get(demand.allocation_id)
            reason: ProvisionReason | None
            if demand.capacity == NO_MACHINE:
                reason = ProvisionReason(ProvisionCode.DEADLINE, "")
            elif agents is not None:
                reason = self._placed(agents, explainer)
            elif demand.allocation_id in unmet and self._holds:
                reason = explainer.held(self._holds)
            elif demand.allocation_id in unmet:
                least = shape_of(replace(demand, slots=demand.least_slots))
                reason = explainer.unmet(demand, purchase_plan.refused.get(least))
            elif demand.slots and demand.priority > purchase_plan.blocked_above:
                reason = explainer.unmet(demand, None)
            else:
                continue  # its job holds as many slots as it may
            if reason is not None:
                sentence = "; ".join(filter(None, (reason.sentence, sentences.get(demand.job_id))))
                self.waiting[demand.allocation_id] = reason._replace(sentence=sentence)

    def _move(self, placement: DemandPlacement) -> None:
        """Move the runs for which joined machines of the chosen way are free."""
        joined_agents = len(self._agents) - len(self._starting)
        for decision in self.deadlines:
            for run in decision.moving:
                agents = placement.agents_of.get(move_id(run))
                is_ready = agents and all(index < joined_agents for index in agents)
                if is_ready and not run.is_leaving:
                    reason = f"it moves to a machine for its deadline: {decision.sentence}"
                    self.moves.append(Move(run.allocation_id, reason))

    def _placed(self, agents: Sequence[int], explainer: Explainer) -> ProvisionReason | None:
        """Explain which machines the demand waits for; None if all have joined."""
        new = [self._rented_at[index] for index in agents if index in self._rented_at]
        if new:
            return explainer.launching(new)
        machines = [self._starting[index] for index in agents if index in self._starting]
        return explainer.starting(machines) if machines else None


def _zone_first(offers: tuple[Offer, ...], zone: str) -> tuple[Offer, ...]:
    """Return the offers. Offers in the zone of the gang's existing machines come first."""
    return tuple(sorted(offers, key=lambda offer: offer.zone != zone)) if zone else offers


def _smaller_if_refused(demand: Demand, plan: PurchasePlan) -> Demand:
    """Return the demand of an elastic gang with fewer slots if the limits forbid its machines."""
    rest = demand.slots - demand.least_slots
    if not rest or shape_of(demand) not in plan.refused:
        return demand
    return replace(demand, slots=demand.slots - max(1, rest // _ELASTIC_STEPS))


def _active(holds: Iterable[Hold], now: float) -> tuple[Hold, ...]:
    return tuple(hold for hold in holds if hold.until is None or hold.until > now)


def _of_refusals(pool: PoolSnapshot, cooldowns: Cooldowns) -> tuple[Hold, ...]:
    hold = hold_for(pool.offers, cooldowns)
    return () if hold is None else (hold,)


def _work_of_leaving(
    machines: Iterable[Machine], deadlines: Iterable[DeadlineDecision]
) -> Iterator[Demand]:
    """Yield demand for the work on machines that a cloud reclaims, so that replacements start early."""
    decided = {machine_id: one for one in deadlines for machine_id in one.machine_ids}
    for machine in machines:
        if machine.leaving_since is not None and machine.used_slots and machine.state in _JOINED:
            decision = decided.get(machine.id)
            yield Demand(
                f"the work of {machine.id}", "", machine.used_slots, 0.0,
                single_agent=True, priority=LEAVING_WORK,
                capacity=decision.capacity if decision else "",
                first_offer=decision.first_offer if decision else "",
            )  # fmt: skip


def _with_room(machines: Iterable[Machine]) -> list[Machine]:
    """Return the machines that can take work, joined machines first."""
    there = [m for m in machines if m.state is MachineState.REGISTERED and m.takes_work]
    coming = sorted((m for m in machines if is_starting(m)), key=lambda m: (since(m), m.id))
    return [*there, *coming]
