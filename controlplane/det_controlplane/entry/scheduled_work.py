"""The work of processes that are started rather than kept.

A turn lasts until nothing is due soon, or its time is over."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from det_controlplane.entry.clouds import clouds_of, markets_of
from det_controlplane.services.context import Context

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
    """Schedule, decide on machines, do and tell what is due; then switch the schedules by whether anything is left."""

    def turn(clock: Clock) -> float | None:
        from det_controlplane.services.maintenance import activity

        due_s = while_due(lambda: _tick(ctx), clock)
        if set_schedules is not None and activity.switch(ctx, set_schedules, idle=due_s is None):
            # What came while the schedules went off was woken by a turn that still saw them on.
            due_s = while_due(lambda: _tick(ctx), clock)
            activity.switch(ctx, set_schedules, idle=due_s is None)
        _rest(ctx, due_s)
        return due_s

    return turn


def _tick(ctx: Context) -> float | None:
    """Run a tick, then send what webhooks have to tell."""
    from det_controlplane.services.maintenance import tick
    from det_controlplane.services.webhooks import delivery

    due = [s for s in (tick.run(ctx), delivery.run(ctx)) if s is not None]
    return min(due, default=None)


def provisioning(ctx: Context, start_relay: Callable[[], None] | None = None) -> Turn:
    """Call the clouds: the only turn that may start and end machines.

    The relay's machine stops by itself; it is started by each pass while a task needs it, which does nothing to one
    that runs. A turn that waits for machines to end takes minutes: its beginning alone would be too seldom."""
    from det_controlplane.services.machines.places import providers_left

    clouds, markets = clouds_of(ctx.config, providers_left(ctx)), markets_of(ctx.config)

    def one_pass() -> float | None:
        from det_controlplane.services.machines import calling
        from det_controlplane.services.tasks import proxying

        if start_relay is not None and proxying.any_wanted(ctx):
            start_relay()
        return calling.run(ctx, clouds, markets) if clouds else None

    def turn(clock: Clock) -> float | None:
        due_s = while_due(one_pass, clock)
        _rest(ctx, due_s)
        return due_s

    return turn


def _rest(ctx: Context, due_s: float | None) -> None:
    """Close the connections where nothing is waited for: a database that pauses does so without any."""
    if due_s is None:
        ctx.db.dispose()


def while_due(act: Callable[[], float | None], clock: Clock) -> float | None:
    """Act until nothing is due soon, or the time is nearly over; return the seconds until something is due."""
    while True:
        due_s = act()
        if due_s is None or due_s > LONGEST_PAUSE_S:
            return due_s
        if clock.left_s() - due_s < _RESERVE_S:
            return due_s
        clock.wait(max(due_s, 0.05))
