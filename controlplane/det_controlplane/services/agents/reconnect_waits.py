"""Waits for silent agents after the end of their leases."""

from datetime import timedelta

from det_controlplane.services.context import Context

# The default time between the end of an agent's lease and its loss; pools can set another time.
DEFAULT_RECONNECT_WAIT_S = 25.0


def reconnect_wait(ctx: Context, pool: str) -> timedelta:
    """Return how long a silent agent of a pool is waited for after its lease."""
    return timedelta(seconds=special_waits(ctx).get(pool, DEFAULT_RECONNECT_WAIT_S))


def special_waits(ctx: Context) -> dict[str, float]:
    """Return the waits of the pools that do not use the default, in seconds by name."""
    waits = {p.pool_name: float(p.agent_reconnect_wait) for p in ctx.config.resource_pools}
    return {name: wait for name, wait in waits.items() if wait != DEFAULT_RECONNECT_WAIT_S}
