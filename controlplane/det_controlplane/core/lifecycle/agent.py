"""An agent's states: silence makes it suspect, long silence lost; a lost one's work was placed elsewhere."""

from enum import Enum


class AgentState(str, Enum):
    JOINED = "JOINED"  # its lease lives
    # The lease ended; its containers may still run, so nothing of it is placed again.
    SUSPECT = "SUSPECT"
    # Given up; its allocations were ended, and their epoch keeps them from coming back.
    LOST = "LOST"


NEXT = {
    AgentState.JOINED: frozenset({AgentState.SUSPECT, AgentState.LOST}),
    AgentState.SUSPECT: frozenset({AgentState.JOINED, AgentState.LOST}),
    AgentState.LOST: frozenset({AgentState.JOINED}),  # only by joining anew
}
