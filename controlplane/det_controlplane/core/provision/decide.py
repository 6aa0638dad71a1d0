"""The entry: the pools of the cluster and what is known of the clouds in, a plan out."""

import math

from .cooldown import Cooldowns
from .model import ProvisionPlan, ProvisionReason, ProvisionSnapshot
from .pool_pass import PoolPass
from .upkeep import give_back, silent_until


def decide(snapshot: ProvisionSnapshot, now: float) -> ProvisionPlan:
    """Return which machines to rent, to empty and to give back, and why each allocation waits.

    The same snapshot always gets the same plan. What it launches starts in the next snapshot, so that deciding twice
    launches nothing more.
    """
    passes = [
        PoolPass(pool, snapshot, Cooldowns(snapshot.cooldowns, now, pool.name), now)
        for pool in snapshot.pools
    ]
    waiting: dict[str, ProvisionReason] = {}
    for one in passes:
        one.run()
        waiting.update(one.waiting)
    fleets = [*(one.fleet for one in passes), give_back(snapshot.left_over, now)]
    times = [time for one in passes for time in one.times()]
    times += (silent_until(machine) for machine in snapshot.left_over)
    return ProvisionPlan(
        launch=tuple(launch for one in passes for launch in one.launches),
        drain=tuple(drain for fleet in fleets for drain in fleet.drain),
        terminate=tuple(end for fleet in fleets for end in fleet.terminate),
        waiting=waiting,
        next_at=min((time for time in times if now < time < math.inf), default=None),
    )
