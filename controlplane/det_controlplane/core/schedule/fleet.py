"""The agents of a pool during one pass: what is still free, and which agents a request gets.

Agents with equal scores stand on one shelf, so a fit looks at a few shelves instead of at every agent. Slots and
containers without slots are two fleets: they are scheduled independently of each other.
"""

from abc import ABC, abstractmethod
from operator import attrgetter
from typing import ClassVar

from .model import Agent, PoolSettings, Request
from .nearness import tie_hash, tokens_of

# The seats of a request: agent indices with the units taken on each.
Fit = list[tuple[int, int]]
NOT_BLOCKED: frozenset[int] = frozenset()

_id = attrgetter("id")


def shape_of(request: Request) -> object:
    """Requests of one shape fit or fail together, because nothing becomes free within a pass."""
    slots = -request.slots if request.single_agent else request.slots
    return (slots, request.blocked_agents) if request.blocked_agents else slots


class Roster:
    """The agents by id, and what about them does not change within a pass."""

    def __init__(self, agents: tuple[Agent, ...], settings: PoolSettings) -> None:
        self.settings = settings
        self.agents = sorted(agents, key=_id)
        ids = tuple([a.id for a in self.agents])
        self.index = dict(zip(ids, range(len(ids)), strict=True))
        self.open = [a.is_open for a in self.agents]
        self.tokens, self.by_token = tokens_of(
            ids
        )  # in the order of tokens, shelves are filled sorted


class Fleet(ABC):
    """`free` and `total` count units: slots, or containers without slots."""

    has_slots: ClassVar[bool]
    free: list[int]
    total: list[int]

    def __init__(self, roster: Roster) -> None:
        self.agents = roster.agents
        self.index = roster.index
        self.open = roster.open
        self.tokens = roster.tokens
        self.best = roster.settings.fitting_policy == "best"
        self.mixes_sizes = roster.settings.allow_heterogeneous_fits
        self.held: set[int] = set()

    def fit(self, request: Request) -> Fit | None:
        """The seats of a request that starts now, or None."""
        target = tie_hash(request.allocation_id)
        if request.blocked_agents:
            return self._fit(request, target, self.blocked(request))
        return self._fit(request, target, NOT_BLOCKED)

    def blocked(self, request: Request) -> frozenset[int]:
        return frozenset(self.index[i] for i in request.blocked_agents if i in self.index)

    def hold(self, agent: int) -> None:
        """Nothing more starts here in this pass."""
        if agent not in self.held:
            self._unshelve(agent)
            self.held.add(agent)

    @abstractmethod
    def take(self, fit: Fit) -> None: ...

    @abstractmethod
    def _fit(self, request: Request, target: int, blocked: frozenset[int]) -> Fit | None: ...

    @abstractmethod
    def _unshelve(self, agent: int) -> None: ...
