"""Decide which machines leave: dead, reclaimed and idle ones, and machines above a limit."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.trials.stragglers import is_slow_machine

from .model import (
    Drain,
    DrainReason,
    Limits,
    Machine,
    Terminate,
    TerminateReason,
)

# A machine is terminated after its agent was silent for so long (docs/reference/pools.md).
MOST_SILENCE_S = 600.0
MOST_UNSENT_S = 900.0  # how long log lines that wait on a machine keep it

_STARTING = (MachineState.REQUESTED, MachineState.LAUNCHED)
_USUAL = Limits()
_ANY_PRICE = Decimal("Infinity")
_NO_LONGER_OURS = (MachineState.GONE, MachineState.FAILED)


def is_starting(machine: Machine) -> bool:
    return machine.state in _STARTING


def works(machine: Machine) -> bool:
    """Return whether the machine runs containers."""
    return machine.used_slots > 0 or machine.aux_used > 0


def since(machine: Machine) -> float:
    """Return the time of the launch, or of the request before that."""
    return machine.requested_at if machine.launched_at is None else machine.launched_at


@dataclass
class MachineChanges:
    """The machines of a pool that stay, and the changes to the others."""

    staying: list[Machine] = field(
        default_factory=list
    )  # these and the rented machines may not exceed the maximum
    drain: list[Drain] = field(default_factory=list)
    terminate: list[Terminate] = field(default_factory=list)
    usd_hour: Decimal = Decimal(0)  # cost of all machines that may still exist

    def end(self, machine: Machine, reason: TerminateReason) -> None:
        self.terminate.append(Terminate(machine.id, reason))
        if machine in self.staying:
            self.staying.remove(machine)


def inspect(machines: Iterable[Machine], limits: Limits, now: float) -> MachineChanges:
    """Return the machines that stay, and the changes that do not depend on demand."""
    changes = MachineChanges()
    for machine in machines:
        if machine.state in _NO_LONGER_OURS:
            continue
        changes.usd_hour += machine.offer.price_usd_hour
        if machine.state is MachineState.TERMINATING:
            continue
        reason = _dead(machine, limits, now)
        if reason is not None:
            changes.terminate.append(Terminate(machine.id, reason))
        elif machine.leaving_since is not None:
            if machine.state is MachineState.REGISTERED:
                why = DrainReason.BROKEN if machine.is_broken else DrainReason.RECLAIMED
                changes.drain.append(Drain(machine.id, why))
        elif machine.state is MachineState.REGISTERED and is_slow_machine(machine.slow_at, now):
            changes.drain.append(Drain(machine.id, DrainReason.SLOW))
        else:
            changes.staying.append(machine)
    _shrink(changes, limits)
    return changes


def release_all(machines: Iterable[Machine], now: float) -> MachineChanges:
    """Release every machine of a pool that stopped renting: drain busy machines, terminate idle ones."""
    changes = MachineChanges()
    for machine in machines:
        if machine.state in _NO_LONGER_OURS or machine.state is MachineState.TERMINATING:
            continue
        reason = _dead(machine, _USUAL, now)
        if reason is not None or not works(machine):
            changes.terminate.append(Terminate(machine.id, reason or TerminateReason.LEFT_OVER))
        elif machine.state is MachineState.REGISTERED:
            changes.drain.append(Drain(machine.id, DrainReason.LEFT_OVER))
    return changes


def disconnect_deadline(machine: Machine) -> float:
    """Return the time at which a disconnected machine is terminated, or infinity if it is connected."""
    silent = machine.disconnected_since
    return math.inf if silent is None else silent + MOST_SILENCE_S


def broken_deadline(machine: Machine) -> float:
    """Return the time at which an idle machine that cannot start containers is terminated, or infinity."""
    if not machine.is_broken or works(machine) or machine.idle_since is None:
        return math.inf
    return machine.idle_since + MOST_SILENCE_S


def _dead(machine: Machine, limits: Limits, now: float) -> TerminateReason | None:
    if machine.stopped:
        return TerminateReason.STOPPED
    if machine.state is MachineState.DRAINING and not works(machine):
        return TerminateReason.DRAINED
    if now > disconnect_deadline(machine):
        return TerminateReason.DISCONNECTED
    if now > broken_deadline(machine):
        return TerminateReason.OUT_OF_SERVICE
    if machine.state is MachineState.LAUNCHED and now - since(machine) >= limits.max_starting_s:
        return TerminateReason.NEVER_REGISTERED
    return None


def _shrink(changes: MachineChanges, limits: Limits) -> None:
    """Remove machines above the maximum or the hourly cost: starting, idle, silent, then the newest."""
    count = len(changes.staying)
    usd_hour = sum((m.offer.price_usd_hour for m in changes.staying), Decimal(0))
    for machine in sorted(changes.staying, key=_removal_order):
        over_count = count > limits.max_instances
        over_cost = limits.max_hourly_cost is not None and usd_hour > limits.max_hourly_cost
        if not (over_count or over_cost):
            return
        count -= 1
        usd_hour -= machine.offer.price_usd_hour
        if machine.state is MachineState.DRAINING:
            continue
        if works(machine):
            drain_reason = DrainReason.OVER_MAXIMUM if over_count else DrainReason.BUDGET
            changes.drain.append(Drain(machine.id, drain_reason))
        else:
            reason = TerminateReason.OVER_MAXIMUM if over_count else TerminateReason.BUDGET
            changes.end(machine, reason)


def _removal_order(machine: Machine) -> tuple[int, float, str]:
    if machine.state is MachineState.DRAINING:
        order = 0  # already leaving
    elif is_starting(machine):
        order = 1
    elif not works(machine):
        order = 2
    elif machine.disconnected_since is not None:
        order = 3
    else:
        order = 4
    return order, -since(machine), machine.id


def terminate_unneeded(
    changes: MachineChanges,
    needed: frozenset[str],
    wanted: frozenset[str],
    limits: Limits,
    now: float,
    most_warm_usd_hour: Decimal = _ANY_PRICE,
) -> None:
    """Terminate idle machines, and cancel requests for machines that no allocation waits for.

    `needed` are the machines on which demand was placed, `wanted` the allocations that wait. Dearer machines than
    `most_warm_usd_hour` are not kept warm.
    """
    warm = sum(is_spare(machine, needed) for machine in changes.staying)
    unneeded = _find_unneeded(changes.staying, needed, wanted, limits, now)
    if limits.warm_policy is not None:
        unneeded += _find_not_warm(changes.staying, needed, unneeded)
        # The dear ones go first. Sorting keeps the order of equal ones.
        unneeded.sort(key=lambda found: -found[0].offer.price_usd_hour)
    for machine, reason in unneeded:
        if len(changes.staying) <= limits.min_instances:
            return
        if not is_spare(machine, needed):
            changes.end(machine, reason)
        elif warm > limits.warm_instances or machine.offer.price_usd_hour > most_warm_usd_hour:
            warm -= 1
            changes.end(machine, reason)


def _find_unneeded(
    machines: Iterable[Machine],
    needed_ids: frozenset[str],
    demand_ids: frozenset[str],
    limits: Limits,
    now: float,
) -> list[tuple[Machine, TerminateReason]]:
    """Return the machines that may be terminated: requested ones first, then the longest idle."""
    requests = [
        (machine, TerminateReason.NOT_NEEDED)
        for machine in machines
        if machine.state is MachineState.REQUESTED
        and machine.purpose
        and machine.purpose not in demand_ids
        and machine.id not in needed_ids
    ]
    idle = [m for m in machines if idle_deadline(m, needed_ids, limits) <= now]
    idle.sort(key=lambda machine: (machine.idle_since or 0.0, machine.id))
    return [*requests, *((machine, _reason_unneeded(machine)) for machine in idle)]


def _find_not_warm(
    machines: Iterable[Machine],
    needed: frozenset[str],
    unneeded: Iterable[tuple[Machine, TerminateReason]],
) -> list[tuple[Machine, TerminateReason]]:
    """Return the other machines that have run nothing. They may end before their idle time does."""
    others = {machine.id for machine, _ in unneeded}
    return [
        (machine, TerminateReason.NOT_WARM)
        for machine in machines
        if machine.id not in others and _is_only_warm(machine, needed)
    ]


def _is_only_warm(machine: Machine, needed: frozenset[str]) -> bool:
    """Return whether no work needs the machine, and it has run none.

    Its purpose does not matter, because work may use a warm machine and leave its own machine to be kept warm.
    """
    is_new = machine.idle_since is None or machine.idle_since == machine.registered_at
    return is_spare(machine, needed) and is_new


def warm_prices(
    machines: Iterable[Machine], needed: frozenset[str], limits: Limits, now: float
) -> list[Decimal]:
    """Return the hourly prices of the machines that exist only because the pool keeps machines warm."""
    return [
        machine.offer.price_usd_hour
        for machine in machines
        if _is_only_warm(machine, needed)
        or (is_spare(machine, needed) and idle_deadline(machine, needed, limits) <= now)
    ]


def _reason_unneeded(machine: Machine) -> TerminateReason:
    return TerminateReason.NOT_NEEDED if is_starting(machine) else TerminateReason.IDLE


def is_spare(machine: Machine, needed: frozenset[str]) -> bool:
    """Return whether the machine is idle or starting and no queued job needs it."""
    idle = machine.takes_work and not works(machine)
    return machine.id not in needed and (is_starting(machine) or idle)


def idle_deadline(machine: Machine, needed: frozenset[str], limits: Limits) -> float:
    """Return the time at which an idle machine may be terminated, or infinity if it is busy.

    A booting machine counts as idle from its launch if no queued job needs it.
    """
    if machine.state is MachineState.LAUNCHED and machine.id not in needed:
        return since(machine) + limits.max_idle_s
    idle = machine.state is MachineState.REGISTERED and not works(machine)
    if machine.idle_since is None or not idle:
        return math.inf
    # A queued job that has not started on this idle machine for so long will not start on it.
    grace = limits.max_starting_s if machine.id in needed else 0.0
    return _quiet_since(machine, machine.idle_since) + limits.max_idle_s + grace


def _quiet_since(machine: Machine, idle_since: float) -> float:
    """Return since when the machine is idle and has sent its logs. Unsent logs keep it for a limited time."""
    unsent_at = machine.unsent_at or 0.0
    return max(idle_since, min(unsent_at, idle_since + MOST_UNSENT_S))
