"""Decide when silent agents are lost, without counting outages of the control plane (docs/concepts/lifecycle.md#agent).

Each tick stores its time. A long pause before a tick is an interruption: the control plane or its database may have
been down, stalled or asleep. The tick after an interruption restarts the leases and waits of all agents.
"""

from datetime import datetime, timedelta

# A poll extends an agent's lease by this time.
LEASE = timedelta(seconds=30)
# The interval of ticks while an agent is suspect, and from this time before the end of a lease on. Agents that poll
# extend their leases earlier. Turns on Lambda and Cloud Run continue during this time.
WATCH = timedelta(seconds=5)
# Longer pauses between ticks mean that the control plane was interrupted. Schedules of clouds start a tick each minute.
LONGEST_PAUSE = timedelta(seconds=90)
LONGEST_WATCHING_PAUSE = timedelta(seconds=20)
# A tick that finds a lease ended for longer than this did not watch when it ended.
LATE = timedelta(seconds=5)
_EARLY = timedelta(seconds=1)  # a tick may run a little before it is due


def was_interrupted(ticked_at: datetime | None, now: datetime, *, is_watching: bool) -> bool:
    """Return whether agents may have been unable to reach the control plane before this tick."""
    if ticked_at is None or ticked_at - now > LONGEST_PAUSE:  # a clock was wrong, and is right now
        return True
    return now - ticked_at > (LONGEST_WATCHING_PAUSE if is_watching else LONGEST_PAUSE)


def lost_after(
    lease_until: datetime,
    now: datetime,
    reconnect_wait: timedelta,
    previous_tick: datetime | None,
) -> datetime:
    """Return when an agent that becomes suspect at this tick is lost, unless it polls before.

    If no tick watched the end of the lease, the control plane may have been interrupted, and the lease starts again."""
    watched_until_end = now - lease_until <= LATE
    watched_before = previous_tick is not None and previous_tick >= lease_until - WATCH - _EARLY
    grace = timedelta(0) if watched_before and watched_until_end else LEASE
    return now + grace + reconnect_wait
