"""Size a pool of equal machines by the rules of Determined's own provisioner.

`decide` has further rules: it chooses among offers, counts free slots, and rents for whole demands, so that it never
rents less for the same queue. Its plans are compared with these rules.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.provision.model import (
    Demand,
    Limits,
    Machine,
    Terminate,
    TerminateReason,
)
from det_controlplane.core.provision.upkeep import MOST_SILENCE_S, since

_PRESENT = (
    MachineState.REQUESTED,
    MachineState.LAUNCHED,
    MachineState.REGISTERED,
    MachineState.DRAINING,
)


class Sizing(NamedTuple):
    """The number of machines to rent, and the machines to terminate."""

    launch: int
    terminate: tuple[Terminate, ...]


def size(
    machines: Iterable[Machine],
    demand: Iterable[Demand],
    limits: Limits,
    slots_per_machine: int,
    now: float,
) -> Sizing:
    """Return the changes that fit the machines of a pool to its queue and limits."""
    present = [machine for machine in machines if machine.state in _PRESENT]
    terminate = to_terminate(present, limits, now)
    ending = {machine_id for machine_id, _ in terminate}
    staying = [machine for machine in present if machine.id not in ending]
    starting = sum(_is_starting(machine, limits, now) for machine in staying)
    desired = desired_machines(demand, slots_per_machine, limits.max_aux_containers)
    return Sizing(to_launch(len(staying), starting, desired, limits), terminate)


def desired_machines(demand: Iterable[Demand], slots_per_machine: int, max_aux: int) -> int:
    """Return the number of machines for a queue. Demand that equal machines cannot hold does not count."""
    containers = 0
    slots_of: defaultdict[str, int] = defaultdict(int)
    for one in demand:
        if not one.slots:
            containers += 1
        elif _holds(slots_per_machine, one):
            most = math.inf if one.job_max_slots is None else one.job_max_slots
            slots_of[one.job_id] = int(min(slots_of[one.job_id] + one.slots, most))
    for_slots = math.ceil(sum(slots_of.values()) / slots_per_machine) if slots_of else 0
    return max(for_slots, math.ceil(containers / max_aux) if max_aux else 0)


def _holds(slots_per_machine: int, one: Demand) -> bool:
    """Return whether one machine, or several that it fills, can hold the demand."""
    if one.slots <= slots_per_machine:
        return True
    return slots_per_machine > 0 and not one.single_agent and one.slots % slots_per_machine == 0


def to_launch(staying: int, starting: int, desired: int, limits: Limits) -> int:
    """Return the number of machines to rent beside the staying ones, including starting ones."""
    missing = limits.min_instances - staying
    allowed = limits.max_instances - staying
    return max(0, min(max(missing, desired - starting), allowed))


def to_terminate(machines: Iterable[Machine], limits: Limits, now: float) -> tuple[Terminate, ...]:
    """Return the stopped and silent machines, idle ones above the minimum, and those above the maximum."""
    ending: dict[str, TerminateReason] = {}
    machines = list(machines)
    for machine in machines:
        silent = _silent_since(machine, limits, now)
        if machine.stopped:
            ending[machine.id] = TerminateReason.STOPPED
        elif silent is not None and now - silent > MOST_SILENCE_S:
            never = machine.registered_at is None
            reason = TerminateReason.NEVER_REGISTERED if never else TerminateReason.DISCONNECTED
            ending[machine.id] = reason
    idle = [m for m in machines if m.id not in ending and m.idle_since is not None]
    for machine in sorted(idle, key=lambda m: (m.idle_since, m.id)):
        long_idle = now - (machine.idle_since or 0) > limits.max_idle_s
        if long_idle and len(machines) - len(ending) > limits.min_instances:
            ending[machine.id] = TerminateReason.IDLE
    staying = [machine for machine in machines if machine.id not in ending]
    staying.sort(key=lambda machine: _first_to_go(machine, limits, now))
    for machine in staying[: max(0, len(staying) - limits.max_instances)]:
        ending[machine.id] = TerminateReason.OVER_MAXIMUM
    return tuple(Terminate(machine_id, reason) for machine_id, reason in ending.items())


def _first_to_go(machine: Machine, limits: Limits, now: float) -> tuple[int, float, str]:
    if _is_starting(machine, limits, now):
        order = 0
    elif machine.idle_since is not None:
        order = 1
    elif _silent_since(machine, limits, now) is not None:
        order = 2
    else:
        order = 3
    return order, -since(machine), machine.id


def _is_starting(machine: Machine, limits: Limits, now: float) -> bool:
    return machine.registered_at is None and now - since(machine) < limits.max_starting_s


def _silent_since(machine: Machine, limits: Limits, now: float) -> float | None:
    """Return since when an agent is missed: one that never joined, from the end of its starting period."""
    if machine.registered_at is None and not _is_starting(machine, limits, now):
        return since(machine) + limits.max_starting_s
    return machine.disconnected_since
