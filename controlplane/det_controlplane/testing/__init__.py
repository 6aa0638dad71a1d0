"""Shipped with the product: the contract of search methods, and the simulated world.

Names are imported when first used: the contract kit needs neither database nor services.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from det_controlplane.testing.world.crowded_world import CrowdedWorld
    from det_controlplane.testing.world.gang_world import GangWorld
    from det_controlplane.testing.world.hosts import Hosts
    from det_controlplane.testing.world.machine_world import MachineWorld
    from det_controlplane.testing.world.task_world import TaskWorld
    from det_controlplane.testing.world.violation import Violation
    from det_controlplane.testing.world.world import World

_HOMES = {
    "CrowdedWorld": "world.crowded_world",
    "GangWorld": "world.gang_world",
    "Hosts": "world.hosts",
    "MachineWorld": "world.machine_world",
    "TaskWorld": "world.task_world",
    "Violation": "world.violation",
    "World": "world.world",
}

__all__ = ["CrowdedWorld", "GangWorld", "Hosts", "MachineWorld", "TaskWorld", "Violation", "World"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
