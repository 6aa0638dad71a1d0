"""Decide which machines leave: the dead, the announced, those above a limit and the idle."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from det_controlplane.core.lifecycle.machine import MachineState

from .model import (
    Drain,
    DrainReason,
    Limits,
    Machine,
    Terminate,
    TerminateReason,
)

# How long the agent of a machine may be silent before the machine is given up (docs/reference/pools.md).
MOST_SILENCE_S = 600.0
MOST_UNSENT_S = 900.0  # how long log lines that wait on a machine keep it

_STARTING = (MachineState.REQUESTED, MachineState.LAUNCHED)
_USUAL = Limits()
_NO_LONGER_OURS = (MachineState.GONE, MachineState.FAILED)


def is_starting(machine: Machine) -> bool:
    return machine.state in _STARTING


def works(machine: Machine) -> bool:
    """Return whether something runs on the machine."""
    return machine.used_slots > 0 or machine.aux_used > 0


def since(machine: Machine) -> float:
    """Return since when the machine is awaited."""
    return machine.requested_at if machine.launched_at is None else machine.launched_at


@dataclass
class Fleet:
    """The machines of a pool: those that stay, and what happens to the others."""

    staying: list[Machine] = field(
        default_factory=list
    )  # they and what is rented may not exceed the maximum
    drain: list[Drain] = field(default_factory=list)
    terminate: list[Terminate] = field(default_factory=list)
    usd_hour: Decimal = Decimal(0)  # what all machines cost that are not known to be gone

    def end(self, machine: Machine, reason: TerminateReason) -> None:
        self.terminate.append(Terminate(machine.id, reason))
        if machine in self.staying:
            self.staying.remove(machine)


def inspect(machines: Iterable[Machine], limits: Limits, now: float) -> Fleet:
    """Divide the machines of a pool into those that stay and those that leave whatever the demand is."""
    fleet = Fleet()
    for machine in machines:
        if machine.state in _NO_LONGER_OURS:
            continue
        fleet.usd_hour += machine.offer.price_usd_hour
        if machine.state is MachineState.TERMINATING:
            continue
        reason = _dead(machine, limits, now)
        if reason is not None:
            fleet.terminate.append(Terminate(machine.id, reason))
        elif machine.leaving_since is not None:
            if machine.state is MachineState.REGISTERED:
                why = DrainReason.BROKEN if machine.is_broken else DrainReason.RECLAIMED
                fleet.drain.append(Drain(machine.id, why))
        else:
            fleet.staying.append(machine)
    _shrink(fleet, limits)
    return fleet


def give_back(machines: Iterable[Machine], now: float) -> Fleet:
    """Return how machines leave whose pool rents no more: what works there comes to its end, the rest goes now."""
    fleet = Fleet()
    for machine in machines:
        if machine.state in _NO_LONGER_OURS or machine.state is MachineState.TERMINATING:
            continue
        reason = _dead(machine, _USUAL, now)
        if reason is not None or not works(machine):
            fleet.terminate.append(Terminate(machine.id, reason or TerminateReason.LEFT_OVER))
        elif machine.state is MachineState.REGISTERED:
            fleet.drain.append(Drain(machine.id, DrainReason.LEFT_OVER))
    return fleet


def silent_until(machine: Machine) -> float:
    """Return when a machine whose agent is silent is given up; never for others."""
    silent = machine.disconnected_since
    return math.inf if silent is None else silent + MOST_SILENCE_S


def broken_until(machine: Machine) -> float:
    """Return when a machine without work that can start none is given back; never for others."""
    if not machine.is_broken or works(machine) or machine.idle_since is None:
        return math.inf
    return machine.idle_since + MOST_SILENCE_S


def _dead(machine: Machine, limits: Limits, now: float) -> TerminateReason | None:
    if machine.stopped:
        return TerminateReason.STOPPED
    if machine.state is MachineState.DRAINING and not works(machine):
        return TerminateReason.DRAINED
    if now > silent_until(machine):
        return TerminateReason.DISCONNECTED
    if now > broken_until(machine):
        return TerminateReason.OUT_OF_SERVICE
    if machine.state is MachineState.LAUNCHED and now - since(machine) >= limits.max_starting_s:
        return TerminateReason.NEVER_REGISTERED
    return None


def _shrink(fleet: Fleet, limits: Limits) -> None:
    """Give back what is above the maximum or the price: starting, idle, silent, then the newest machines."""
    count = len(fleet.staying)
    usd_hour = sum((m.offer.price_usd_hour for m in fleet.staying), Decimal(0))
    for machine in sorted(fleet.staying, key=_first_to_go):
        over_count = count > limits.max_instances
        over_cost = limits.max_hourly_cost is not None and usd_hour > limits.max_hourly_cost
        if not (over_count or over_cost):
            return
        count -= 1
        usd_hour -= machine.offer.price_usd_hour
        if machine.state is MachineState.DRAINING:
            continue
        if works(machine):
            drained = DrainReason.OVER_MAXIMUM if over_count else DrainReason.BUDGET
            fleet.drain.append(Drain(machine.id, drained))
        else:
            ended = TerminateReason.OVER_MAXIMUM if over_count else TerminateReason.BUDGET
            fleet.end(machine, ended)


def _first_to_go(machine: Machine) -> tuple[int, float, str]:
    if machine.state is MachineState.DRAINING:
        order = 0  # it goes already
    elif is_starting(machine):
        order = 1
    elif not works(machine):
        order = 2
    elif machine.disconnected_since is not None:
        order = 3
    else:
        order = 4
    return order, -since(machine), machine.id


def end_unwanted(
    fleet: Fleet, needed: frozenset[str], wanted: frozenset[str], limits: Limits, now: float
) -> None:
    """Give back idle machines, and cancel requests that nothing waits for any more.

    `needed` are the machines with room that demand waits for, `wanted` the allocations that wait.
    """
    warm = sum(is_spare(machine, needed) for machine in fleet.staying)
    for machine, reason in _unwanted(fleet.staying, needed, wanted, limits, now):
        if len(fleet.staying) <= limits.min_instances:
            return
        if not is_spare(machine, needed):
            fleet.end(machine, reason)
        elif warm > limits.warm_instances:
            warm -= 1
            fleet.end(machine, reason)


def _unwanted(
    machines: Iterable[Machine],
    needed: frozenset[str],
    wanted: frozenset[str],
    limits: Limits,
    now: float,
) -> list[tuple[Machine, TerminateReason]]:
    """Return the machines that may be given back: first those that cost nothing yet, then by how long they are idle."""
    asked = [
        (machine, TerminateReason.NOT_NEEDED)
        for machine in machines
        if machine.state is MachineState.REQUESTED
        and machine.purpose
        and machine.purpose not in wanted
        and machine.id not in needed
    ]
    idle = [m for m in machines if idle_until(m, needed, limits) <= now]
    idle.sort(key=lambda machine: (machine.idle_since or 0.0, machine.id))
    return [*asked, *((machine, _why_unwanted(machine)) for machine in idle)]


def _why_unwanted(machine: Machine) -> TerminateReason:
    return TerminateReason.NOT_NEEDED if is_starting(machine) else TerminateReason.IDLE


def is_spare(machine: Machine, needed: frozenset[str]) -> bool:
    """Return whether a machine is or will be free for work that has not come yet."""
    idle = machine.takes_work and not works(machine)
    return machine.id not in needed and (is_starting(machine) or idle)


def idle_until(machine: Machine, needed: frozenset[str], limits: Limits) -> float:
    """Return when the machine has been idle for long enough; never while something runs there.

    One that is still booting counts as idle from its launch while nothing waits for it.
    """
    if machine.state is MachineState.LAUNCHED and machine.id not in needed:
        return since(machine) + limits.max_idle_s
    idle = machine.state is MachineState.REGISTERED and not works(machine)
    if machine.idle_since is None or not idle:
        return math.inf
    # Demand that waits for an idle machine so long is not started there, whatever the reason is.
    patience = limits.max_starting_s if machine.id in needed else 0.0
    return _quiet_since(machine, machine.idle_since) + limits.max_idle_s + patience


def _quiet_since(machine: Machine, idle_since: float) -> float:
    """Return since when a machine neither works nor has log lines to send; those count for a limited time."""
    unsent_at = machine.unsent_at or 0.0
    return max(idle_since, min(unsent_at, idle_since + MOST_UNSENT_S))
