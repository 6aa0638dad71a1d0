"""Decide whether schedules must run: only while something is due, so that a serverless database may pause."""

from collections.abc import Callable

from det_controlplane.db.cluster import cluster
from det_controlplane.db.machines import machines
from det_controlplane.services.context import Context


def switch(ctx: Context, set_schedules: Callable[..., None], *, idle: bool) -> bool:
    """Switch the schedules on while work has deadlines or costs money, and off otherwise. Return whether they were
    switched off.

    The state is stored after the switch, so a process that dies in between switches again."""
    with ctx.db.autocommit() as tx:
        on = not idle or machines.any_live(tx)
        if cluster.is_ticking(tx) is on:
            return False
    set_schedules(on=on)
    with ctx.db.begin() as tx:
        cluster.set_ticking(tx, on)
    return not on


def is_on(ctx: Context) -> bool:
    """Return whether schedules call the control plane, as the last switch stored it."""
    with ctx.db.autocommit() as tx:
        return cluster.is_ticking(tx)
