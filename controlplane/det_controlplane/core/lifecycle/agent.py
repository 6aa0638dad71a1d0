"""The states of an agent. An agent that does not poll becomes suspect, then lost. Its work is then placed elsewhere.

Outages of the control plane do not count as silence (docs/concepts/lifecycle.md#agent). Each tick stores its time. A
pause of 20 s or less before a tick proves that the control plane was able to hear agents. An agent is lost only after
its lease and wait have passed during such ticks. After a long pause, the control plane or its database may have been
down, stalled or asleep: such an interruption restarts the leases and waits of all agents.

On Lambda and Cloud Run, ticks can run while the API is down. If an agent is overdue and no other agent polls, the tick
sends a probe to the API's public address. A probe without an answer is an interruption, too. It counts only if an
earlier probe was answered, because some networks have no route from the tick to that address.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

# A poll extends an agent's lease by this time.
LEASE = timedelta(seconds=30)
# The interval of ticks while an agent is suspect, and from this time before the end of a lease on. Agents that poll
# extend their leases earlier. Turns on Lambda and Cloud Run continue during this time.
WATCH = timedelta(seconds=5)
# The interval of ticks while agents are joined, where a process stays and waits for the next tick.
ATTENTION = timedelta(seconds=15)
# Agents may have been unable to reach the control plane during a longer pause between ticks.
LONGEST_WATCHING_PAUSE = timedelta(seconds=20)
# While no agent is suspect, only a longer pause is an interruption. Schedules of clouds start a tick each minute.
LONGEST_PAUSE = timedelta(seconds=90)
# A poll of any agent within this time shows that the API answers. It is also the shortest interval of probes.
FRESH = timedelta(seconds=10)
# The interval of probes while agents poll. They only show that a tick can reach the address of the API.
PROBE_INTERVAL = timedelta(hours=1)
# Machines end themselves after this time without an answer. The same bound holds for the waits of a failing probe.
LONGEST_API_OUTAGE = timedelta(hours=25)


class AgentState(str, Enum):
    JOINED = "JOINED"  # its lease is valid
    # Its lease has ended. Its containers may still run, so their work is not placed elsewhere.
    SUSPECT = "SUSPECT"
    # Its allocations were ended. Their epoch prevents its containers from reporting again.
    LOST = "LOST"


NEXT = {
    AgentState.JOINED: frozenset({AgentState.SUSPECT, AgentState.LOST}),
    AgentState.SUSPECT: frozenset({AgentState.JOINED, AgentState.LOST}),
    AgentState.LOST: frozenset({AgentState.JOINED}),  # only by a new join
}


@dataclass(frozen=True, slots=True)
class Contact:
    """The signs that the API answers."""

    probed_at: datetime | None
    reached_at: datetime | None  # the last probe that was answered
    has_agents: bool
    is_overdue: (
        bool  # an agent, a starting machine or an unmanaged trial should have sent a request
    )
    is_heard: bool  # an agent has polled a moment ago

    def needs_probe(self, now: datetime) -> bool:
        if self.is_overdue and not self.is_heard:
            return _had_pause(self.probed_at, now, FRESH)
        return self.has_agents and _had_pause(self.probed_at, now, PROBE_INTERVAL)

    def is_api_down(self, now: datetime) -> bool:
        """Return whether the last probe failed although the tick can reach the address of the API."""
        if self.probed_at is None or self.reached_at is None or self.is_heard:
            return False
        is_failing = self.is_overdue and self.reached_at < self.probed_at
        return is_failing and now - self.reached_at < LONGEST_API_OUTAGE


def was_interrupted(ticked_at: datetime | None, now: datetime, *, is_watching: bool) -> bool:
    """Return whether the control plane may have been interrupted before this tick."""
    return _had_pause(ticked_at, now, LONGEST_WATCHING_PAUSE if is_watching else LONGEST_PAUSE)


def watched_since(previous: datetime | None, ticked_at: datetime | None, now: datetime) -> datetime:
    """Return the time since which ticks have followed each other closely. The last tick stored the previous value."""
    if previous is None or _had_pause(ticked_at, now, LONGEST_WATCHING_PAUSE):
        return now
    return previous


def lost_after(
    lease_until: datetime, now: datetime, reconnect_wait: timedelta, since: datetime
) -> datetime:
    """Return when an agent that becomes suspect at this tick is lost, unless it polls before.

    Its lease and wait count only while ticks have followed each other closely."""
    return max(lease_until, now, since + LEASE) + reconnect_wait


def _had_pause(ticked_at: datetime | None, now: datetime, longest: timedelta) -> bool:
    if ticked_at is None or ticked_at - now > LONGEST_PAUSE:  # the clock was wrong before
        return True
    return now - ticked_at > longest
