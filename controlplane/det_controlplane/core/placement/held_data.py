"""The data sets that agents hold, as a preference between agents that a request may use equally well.

The preference never decides whether a request starts. It only chooses between agents of one shelf, which have the same
size and the same number of free slots. Afterwards the pool has the same free slots as without the preference.
"""

from collections.abc import Sequence

from det_controlplane.core.datasets.sources import shown_bytes

from .model import Agent

_NAMED = 2  # data sets in a sentence


class HeldData:
    """The bytes of each data set on each agent."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        self._ids = [agent.id for agent in agents]
        self._held = [dict(agent.data_sets) for agent in agents]
        self.is_empty = not any(self._held)

    def bytes_on(self, agent: int, sources: Sequence[str]) -> int:
        """Return how many bytes of these data sets an agent need not load."""
        held = self._held[agent]
        return sum(held.get(source, 0) for source in sources) if held else 0

    def sentence(self, agents: Sequence[int], sources: Sequence[str], *, is_choice: bool) -> str:
        """Return which of the agents hold data sets of a request, or ''."""
        parts = []
        verb = "was chosen because it holds" if is_choice else "holds"
        for agent in agents:
            held = {s: self._held[agent][s] for s in sources if self._held[agent].get(s)}
            names = [f"{source} ({shown_bytes(size)})" for source, size in held.items()]
            if len(names) > _NAMED:
                names[_NAMED:] = [f"{len(names) - _NAMED} more"]
            if names:
                parts.append(f"{self._ids[agent]} {verb} {' and '.join(names)}")
        return "; ".join(parts)
