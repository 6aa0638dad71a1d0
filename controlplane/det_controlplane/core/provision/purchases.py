"""Choose machines for demand that fits on no machine: the cheapest set, in queue order, within the limits."""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from .cover import cheapest_cover
from .gang_offers import GangOffers, MissingMachines
from .market import Market, Ranked
from .model import Demand, Limits, ProvisionCode
from .offers import Offer
from .placing import DemandPlacement

# The priority of work on machines that leave. It comes first, and no demand is blocked behind it.
LEAVING_WORK = -1
# Extra prices of each machine, tried one after the other if the cheapest set has too many machines.
_MACHINE_PENALTIES = (0.0, 0.25, 1.0, 100.0)


class Purchase(NamedTuple):
    """Machines to rent, each from one of some offers, the best first."""

    offers: tuple[Offer, ...]
    machines: int


def cost(purchases: Sequence[Purchase]) -> Decimal:
    """Return the highest cost of the purchases for an hour."""
    return sum(
        (max(o.price_usd_hour for o in p.offers) * p.machines for p in purchases), Decimal(0)
    )


@dataclass(frozen=True, slots=True)
class Allowance:
    """Machines, and dollars an hour, that the pool may still rent."""

    machines: int
    usd_hour: Decimal | None

    def exceeded_by(self, purchases: Sequence[Purchase]) -> ProvisionCode | None:
        """Return the limit that the purchases would exceed, or None."""
        if not purchases:
            return None
        if sum(purchase.machines for purchase in purchases) > self.machines:
            return ProvisionCode.MAX_INSTANCES
        if self.usd_hour is not None and cost(purchases) > self.usd_hour:
            return ProvisionCode.MAX_HOURLY_COST
        return None

    def less(self, purchases: Sequence[Purchase]) -> "Allowance":
        """Return the limits that are left after the purchases."""
        machines = self.machines - sum(purchase.machines for purchase in purchases)
        usd_hour = None if self.usd_hour is None else self.usd_hour - cost(purchases)
        return Allowance(machines, usd_hour)


Shape = tuple[int, bool, bool, str]
# The shape of containers without slots, which fit on any machine.
CONTAINER: Shape = (0, False, False, "")


def shape_of(demand: Demand) -> Shape:
    """Return the properties of a demand that decide which machines it needs."""
    if not demand.slots:
        return CONTAINER
    return demand.slots, demand.single_agent, demand.strict_topology, demand.capacity


@dataclass(frozen=True, slots=True)
class PurchasePlan:
    """The machines to rent, and the shapes of demand that get none, each with the limit that forbids it."""

    purchases: tuple[Purchase, ...]
    refused: dict[Shape, ProvisionCode]
    blocked_above: float  # demand with a larger priority number waits for refused demand

    def excludes(self, demand: Demand) -> bool:
        """Return whether a demand is refused or waits behind refused demand."""
        return shape_of(demand) in self.refused or demand.priority > self.blocked_above


def joined(plans: Sequence[PurchasePlan]) -> PurchasePlan:
    """Return the plans for parts of the demand as one plan."""
    return PurchasePlan(
        tuple(purchase for plan in plans for purchase in plan.purchases),
        {shape: code for plan in plans for shape, code in plan.refused.items()},
        min((plan.blocked_above for plan in plans), default=math.inf),
    )


# A demand that can get machines. If it needs a gang, the machines that the gang lacks.
Candidate = tuple[Demand, MissingMachines | None]


class PurchasePlanner:
    """Plans purchases for demand that fits on no machine."""

    def __init__(
        self,
        market: Market,
        placement: DemandPlacement,
        offers: Sequence[Offer],
        limits: Limits,
        allowance: Allowance,
    ) -> None:
        self._market = market
        self._placement = placement
        self._offers = offers
        self._limits = limits
        self._allowance = allowance

    def plan(self, unmet: Sequence[Demand], spare: int = 0) -> PurchasePlan:
        """Return the purchases for demand. `spare` are slots beyond it, for sizes that do not divide each other."""
        refusals = _Refusals(self._limits.preemption)
        candidates = self._candidates(unmet, refusals)
        purchases = self._affordable(candidates, refusals, spare)
        containers = sum(not one.slots for one in unmet)
        purchases += self._for_containers(containers, purchases, refusals)
        return PurchasePlan(tuple(purchases), refusals.codes, refusals.blocked_above)

    def _candidates(self, unmet: Sequence[Demand], refusals: "_Refusals") -> list[Candidate]:
        """Return the demand that offers can hold.

        The rest of the queue is skipped as soon as its head needs more slots than the limits allow to rent.
        """
        gangs = GangOffers(self._market, self._placement, self._offers, self._limits)
        most = 2 * self._most_slots()
        alone: dict[Shape, bool] = {}
        candidates: list[Candidate] = []
        for one in unmet:
            shape = shape_of(one)
            if not one.slots or shape in refusals.codes:
                continue
            if one.priority > refusals.blocked_above:
                break  # the rest of the queue has no smaller priority number
            if most <= 0:
                refusals.add(one, ProvisionCode.MAX_INSTANCES)
                continue
            if shape not in alone:
                alone[shape] = any(size >= one.slots for size in self._market.sizes)
            gang = None if alone[shape] else gangs.missing_machines(one, self._allowance.machines)
            if gang is None and not alone[shape]:
                refusals.add(one, ProvisionCode.NO_OFFER_FITS)
            elif gang is not None and gang.machines > self._allowance.machines:
                refusals.add(one, ProvisionCode.MAX_INSTANCES)
            else:
                candidates.append((one, gang))
                most -= one.slots
        return candidates

    def _most_slots(self) -> float:
        """Return an upper bound of the slots that the limits allow to rent."""
        sizes = {size: ranked for size, ranked in self._market.sizes.items() if size}
        most = float(self._allowance.machines * max(sizes, default=0))
        if self._allowance.usd_hour is None or not sizes:
            return most
        cheapest = min(
            float(r.offer.price_usd_hour) / r.offer.slots
            for r in self._market.ranked
            if r.offer.slots
        )
        return min(most, float(self._allowance.usd_hour) / cheapest) if cheapest else most

    def _affordable(
        self, candidates: list[Candidate], refusals: "_Refusals", spare: int
    ) -> list[Purchase]:
        """Return purchases for as much of the queue as the limits allow, and skip demand beyond them."""
        most = 0
        while True:
            queue = _CandidateQueue(candidates)
            everything = self._purchases(queue, len(candidates), spare)
            if not isinstance(everything, ProvisionCode):
                return everything
            too_many, cause = len(candidates), everything
            while most + 1 < too_many:
                middle = (most + too_many) // 2
                result = self._purchases(queue, middle, spare)
                if isinstance(result, ProvisionCode):
                    too_many, cause = middle, result
                else:
                    most = middle
            refusals.add(candidates[most][0], cause)
            rest = (
                candidate
                for candidate in candidates[too_many:]
                if not refusals.concern(candidate[0])
            )
            candidates = [*candidates[:most], *rest]

    def _purchases(
        self, queue: "_CandidateQueue", length: int, spare: int
    ) -> list[Purchase] | ProvisionCode:
        """Return the cheapest purchases for the first candidates, or the limit that they exceed."""
        gangs = [
            self._machines(gang.best, machines, True) for gang, machines in queue.gangs(length)
        ]
        limit = self._allowance.exceeded_by(gangs)
        if limit is not None:
            return limit
        singles = queue.singles(length)
        for penalty in _MACHINE_PENALTIES if singles else (0.0,):
            purchases = list(gangs)
            if singles:
                purchases += self._cover(singles, penalty, spare)
            limit = self._allowance.exceeded_by(purchases)
            if limit is not ProvisionCode.MAX_INSTANCES:
                break
        return limit or purchases

    def _cover(self, demand: Counter[int], penalty: float, spare: int) -> list[Purchase]:
        sizes = self._market.sizes
        dearest = max(ranked.price for ranked in sizes.values())
        prices = {size: r.price + penalty * dearest for size, r in sizes.items() if size}
        counts = cheapest_cover(demand, prices, spare)
        if counts is None:  # each candidate fits on some size
            raise AssertionError(f"no machine of {sorted(prices)} slots holds {dict(demand)}")
        return [
            self._machines(sizes[size], count, False)
            for size, count in sorted(counts.items(), reverse=True)
        ]

    def _machines(self, best: Ranked, count: int, one_type: bool) -> Purchase:
        # A more expensive alternative would reserve more of the hourly cost.
        limit = None if self._allowance.usd_hour is None else best.offer.price_usd_hour
        offers = self._market.alternatives(best, limit)
        if one_type:
            offers = tuple(o for o in offers if o.machine_type == best.offer.machine_type)
        return Purchase(offers, count)

    def _for_containers(
        self, count: int, bought: Sequence[Purchase], refusals: "_Refusals"
    ) -> list[Purchase]:
        """Return machines for containers without slots that do not fit on the other purchases."""
        each = self._limits.max_aux_containers
        count -= each * sum(purchase.machines for purchase in bought)
        if count <= 0:
            return []
        best = min(self._market.ranked, default=None)
        if best is None or not each:
            refusals.codes[CONTAINER] = ProvisionCode.NO_OFFER_FITS
            return []
        allowance = self._allowance.less(bought)
        for machines in range(min(math.ceil(count / each), allowance.machines), 0, -1):
            purchase = self._machines(best, machines, False)
            if not allowance.exceeded_by([purchase]):
                return [purchase]
        refusals.codes[CONTAINER] = (
            allowance.exceeded_by([self._machines(best, 1, False)]) or ProvisionCode.MAX_INSTANCES
        )
        return []


class _Refusals:
    """Shapes of demand that get no machines, and the priorities that wait behind them."""

    def __init__(self, preemption: bool) -> None:
        self._preemption = preemption
        self.codes: dict[Shape, ProvisionCode] = {}
        self.blocked_above = math.inf

    def add(self, demand: Demand, code: ProvisionCode) -> None:
        self.codes[shape_of(demand)] = code
        if not self._preemption and demand.priority != LEAVING_WORK:
            self.blocked_above = min(self.blocked_above, demand.priority)

    def concern(self, demand: Demand) -> bool:
        return demand.priority > self.blocked_above or shape_of(demand) in self.codes


class _CandidateQueue:
    """Candidates in order. The needs of the first n candidates are found by bisection."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._gangs: dict[int, _GangGroup] = {}  # by the order of their offer
        self._places: defaultdict[int, list[int]] = defaultdict(list)  # by slots
        for place, (demand, gang) in enumerate(candidates):
            if gang is None:
                self._places[demand.slots].append(place)
            else:
                kind = self._gangs.setdefault(gang.best.order, _GangGroup(gang, [], [0]))
                kind.add(place, gang.machines)

    def gangs(self, length: int) -> list[tuple[MissingMachines, int]]:
        """Return one gang for each offer, with the machines of all gangs that need the offer."""
        pairs = ((gangs.first, gangs.machines_before(length)) for gangs in self._gangs.values())
        return [(gang, machines) for gang, machines in pairs if machines]

    def singles(self, length: int) -> Counter[int]:
        """Return the number of demands by slots."""
        counts = {slots: bisect_left(places, length) for slots, places in self._places.items()}
        return Counter({slots: count for slots, count in counts.items() if count})


class _GangGroup(NamedTuple):
    """Gangs that lack machines of one offer: their positions in the queue, and the machines up to each."""

    first: MissingMachines
    places: list[int]
    machines: list[int]

    def add(self, place: int, machines: int) -> None:
        self.places.append(place)
        self.machines.append(self.machines[-1] + machines)

    def machines_before(self, length: int) -> int:
        return self.machines[bisect_left(self.places, length)]
