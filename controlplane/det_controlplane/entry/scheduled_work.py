"""Work of processes that a schedule starts, such as Lambda functions and Cloud Run services.

A turn lasts until no work is due soon or its time is over.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from det_controlplane.entry.clouds import Adapters
from det_controlplane.entry.settings import BadSettings
from det_controlplane.services.context import Context

log = logging.getLogger("det.machines")

# Longer than this a turn does not wait for the next due time: the schedule starts another.
LONGEST_PAUSE_S = 5.0
_RESERVE_S = 15.0


@dataclass(frozen=True, slots=True)
class Clock:
    """The time that a turn has left, and its way to wait."""

    left_s: Callable[[], float]
    wait: Callable[[float], object] = time.sleep


SetSchedules = Callable[..., None]
Turn = Callable[[Clock], float | None]


def ticking(ctx: Context, set_schedules: SetSchedules | None) -> Turn:
    """Return a turn that runs ticks, then switches the schedules on if work remains and off otherwise."""

    def turn(clock: Clock) -> float | None:
        from det_controlplane.services.maintenance import activity

        due_s = run_while_due(lambda: _tick(ctx), clock)
        if set_schedules is not None and activity.switch(ctx, set_schedules, idle=due_s is None):
            # Work that came while the schedules were switched off was woken by a turn that still saw them on.
            due_s = run_while_due(lambda: _tick(ctx), clock)
            activity.switch(ctx, set_schedules, idle=due_s is None)
        _release_connections(ctx, due_s)
        return due_s

    return turn


def _tick(ctx: Context) -> float | None:
    """Run a tick, then send the due messages of webhooks and the traces of starts."""
    from det_controlplane.services.maintenance import tick
    from det_controlplane.services.webhooks import delivery

    due = [s for s in (tick.run(ctx), delivery.run(ctx)) if s is not None]
    if ctx.spans is not None:
        from det_controlplane.services.trials import start_traces

        # The next tick sends later starts, so its due time does not keep this process awake.
        start_traces.send_due(ctx)
    return min(due, default=None)


def provisioning(ctx: Context, start_relay: Callable[[], None] | None = None) -> Turn:
    """Return a turn that calls the clouds. Only this turn may start and end machines.

    Each pass starts the relay while a task needs it; starting a running relay has no effect. A turn may wait minutes
    for machines to end, so one start at its beginning would not be enough."""
    from det_controlplane.services.machines.places import providers_left

    adapters = Adapters()
    adapters.make(ctx.config, providers_left(ctx))

    def one_pass() -> float | None:
        from det_controlplane.services.tasks import proxying

        if start_relay is not None and proxying.is_relay_needed(ctx):
            start_relay()
        return call_clouds(ctx, adapters)

    def turn(clock: Clock) -> float | None:
        due_s = run_while_due(one_pass, clock)
        _release_connections(ctx, due_s)
        return due_s

    return turn


def call_clouds(ctx: Context, adapters: Adapters) -> float | None:
    """Make a pass of all calls to the clouds in which pools rent now, or did."""
    from det_controlplane.services import stored_pools
    from det_controlplane.services.machines import calling
    from det_controlplane.services.machines.places import providers_left

    now = stored_pools.current(ctx)
    try:
        adapters.make(now.config, providers_left(now))
    except BadSettings as e:  # of a pool in the database; the other clouds are called as before
        log.error("%s", e)
    return calling.run(now, adapters.clouds, adapters.markets) if adapters.clouds else None


def _release_connections(ctx: Context, due_s: float | None) -> None:
    """Close the database connections if no work is due, so that a serverless database can pause."""
    if due_s is None:
        ctx.db.dispose()


def run_while_due(act: Callable[[], float | None], clock: Clock) -> float | None:
    """Act until no work is due soon or the time is nearly over. Return the seconds until work is due."""
    while True:
        due_s = act()
        if due_s is None or due_s > LONGEST_PAUSE_S:
            return due_s
        if clock.left_s() - due_s < _RESERVE_S:
            return due_s
        clock.wait(max(due_s, 0.05))
