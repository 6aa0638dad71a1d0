"""The states of an agent. An agent that does not poll becomes suspect, then lost. Its work is then placed elsewhere."""

from enum import Enum


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
