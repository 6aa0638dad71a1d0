"""The entry point: the pools of the cluster and the known state of the clouds in, a plan out."""

import math

from .cooldown import Cooldowns
from .model import ProvisionPlan, ProvisionReason, ProvisionSnapshot
from .pool_pass import PoolPass
from .upkeep import disconnect_deadline, release_all


def decide(snapshot: ProvisionSnapshot, now: float) -> ProvisionPlan:
    """Return the machines to rent, drain and terminate, and the reason why each allocation waits.

    The same snapshot always gives the same plan. Launches are part of the next snapshot, so deciding twice launches
    no more machines."""
    passes = [
        PoolPass(pool, snapshot, Cooldowns(snapshot.cooldowns, now, pool.name), now)
        for pool in snapshot.pools
    ]
    waiting: dict[str, ProvisionReason] = {}
    for one in passes:
        one.run()
        waiting.update(one.waiting)
    changes = [*(one.changes for one in passes), release_all(snapshot.left_over, now)]
    times = [time for one in passes for time in one.times()]
    times += (disconnect_deadline(machine) for machine in snapshot.left_over)
    return ProvisionPlan(
        launch=tuple(launch for one in passes for launch in one.launches),
        drain=tuple(drain for change in changes for drain in change.drain),
        terminate=tuple(end for change in changes for end in change.terminate),
        waiting=waiting,
        deadlines=tuple(decision for one in passes for decision in one.deadlines),
        moves=tuple(move for one in passes for move in one.moves),
        warm=tuple(one.warm for one in passes if one.warm is not None),
        next_at=min((time for time in times if now < time < math.inf), default=None),
    )
