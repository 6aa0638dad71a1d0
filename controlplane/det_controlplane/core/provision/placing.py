"""Place demand on the machines of a pool by the rules of `core.placement`, as the scheduler will."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from det_controlplane.core.placement.fleet import AuxFleet, Roster, SlotFleet
from det_controlplane.core.placement.model import Agent, Fit
from det_controlplane.core.placement.tie_break import FixedOrder

from .model import Demand, Limits, Machine
from .offers import Offer


def agent_of(machine: Machine, limits: Limits) -> Agent:
    """Return the agent of a machine, also if it has not joined yet."""
    offer = machine.offer
    return Agent(
        machine.id, offer.slots, machine.used_slots,
        limits.max_aux_containers, machine.aux_used, place=offer.place, zone=offer.zone,
        free_slots=machine.free_slots, topology=machine.topology,
        capacity=offer.capacity.value,
    )  # fmt: skip


def agent_to_rent(offer: Offer, limits: Limits) -> Agent:
    """Return the agent of a machine that is to be rented. It has no id."""
    return Agent(
        "", offer.slots, aux_limit=limits.max_aux_containers, place=offer.place, zone=offer.zone,
        capacity=offer.capacity.value,
    )  # fmt: skip


def could_hold(offer: Offer, slots: int, single_agent: bool, limits: Limits) -> bool:
    """Return whether machines of an offer could hold a demand if enough of them were rented."""
    if not slots:
        return limits.max_aux_containers > 0
    if not offer.slots or offer.slots >= slots:
        return bool(offer.slots)
    divides = slots % offer.slots == 0 or limits.allow_heterogeneous_fits
    return divides and not single_agent


class DemandPlacement:
    """The agents on which the demand of a pool fits, and the demand that fits on none."""

    def __init__(self, agents: Sequence[Agent], limits: Limits) -> None:
        # Machines get their final names when they join, so ties are broken without names.
        self._roster = Roster(
            agents,
            FixedOrder(agents),
            fitting_policy=limits.fitting_policy,
            mixes_sizes=limits.allow_heterogeneous_fits,
        )
        self.slots = SlotFleet(self._roster)
        self.agents_of: dict[str, list[int]] = {}  # by allocation
        self.used: set[int] = set()
        self.unmet: list[Demand] = []

    @cached_property
    def _containers(self) -> AuxFleet:
        return AuxFleet(self._roster)

    @property
    def used_ids(self) -> frozenset[str]:
        """Return the machines that demand waits for."""
        return frozenset(self._roster.agents[agent].id for agent in self.used)

    def whole_agents(self, *, by_zone: bool) -> Counter[tuple[str, int]]:
        """Count the agents that are still wholly free, by place and size, or by zone and size."""
        spans = self._roster.zones if by_zone else self._roster.places
        sizes = self.slots.whole_sizes()
        return Counter(
            (spans[agent], size) for size in sizes for agent in self.slots.whole_agents(size)
        )

    def place(self, demand: Demand) -> Fit | None:
        """Place one demand if it fits."""
        fleet = self.slots if demand.slots else self._containers
        fit = fleet.fit(demand)
        if fit is not None:
            if fleet is self.slots:
                self.slots.take_slots(fit)
            else:
                fleet.take(fit)
            agents = [agent for agent, _ in fit]
            self.agents_of[demand.allocation_id] = agents
            self.used.update(agents)
        return fit


def place_demand(
    demand: Iterable[Demand], agents: Sequence[Agent], limits: Limits
) -> DemandPlacement:
    """Place the demand in the order of the queue, within the limits of its jobs."""
    placement = DemandPlacement(agents, limits)
    full: set[tuple[int, int, bool, bool, str]] = set()  # shapes that do not fit any more
    job_slots: dict[str, int] = {}
    for one in demand:
        if one.job_max_slots is not None and one.slots:
            slots = job_slots.get(one.job_id, one.job_held_slots) + one.slots
            if slots > one.job_max_slots:
                continue
            job_slots[one.job_id] = slots
        shape = one.slots, one.least_slots, one.single_agent, one.strict_topology, one.capacity
        if shape not in full and placement.place(one) is not None:
            continue
        placement.unmet.append(one)
        if not one.blocked_agents:
            full.add(shape)
    return placement
