"""Reasons for waiting at the end of the pass: the missing slots, the obstacle and the next step."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from det_controlplane.core.placement.fleet import SlotFleet
from det_controlplane.core.placement.kept_agents import MAX_PASSED_S
from det_controlplane.core.placement.links import kind_of_class
from det_controlplane.core.placement.model import Agent, may_use

from .model import PoolSnapshot, Request, WaitCode, WaitReason
from .queue_order import JobLimits
from .wording import counted, job_mark, named

_LIMIT = f"{MAX_PASSED_S / 60:g} min"
_STAYS = "work over several agents stays within one region of one cloud"
_RAISE_LIMIT = "`det experiment set max-slots ID SLOTS` lets it start"


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The request fits on no agents; it stands for all requests of its shape."""

    request: Request


@dataclass(frozen=True, slots=True)
class OverLimit:
    """The request would take its job above `max_slots`."""

    request: Request


@dataclass(frozen=True, slots=True)
class KeptAgents:
    """Agents that are kept for a request that has waited for too long."""

    request: Request
    agent_ids: tuple[str, ...]


Sizes = Mapping[str, Counter[int]]  # by place: how many agents have so many slots
Cause = WaitReason | NoRoom | OverLimit | KeptAgents


class Explainer:
    """Puts the causes for which requests wait into words."""

    def __init__(
        self, snapshot: PoolSnapshot, slots: SlotFleet, limits: JobLimits, kept: KeptAgents | None
    ) -> None:
        self._snapshot = snapshot
        self._slots = slots
        self._limits = limits
        self._kept = kept
        self._no_rooms: dict[int, WaitReason] = {}

    def explain(self, cause: Cause) -> WaitReason:
        match cause:
            case WaitReason():
                return cause
            case OverLimit(request):
                return self._over_limit(request)
            case KeptAgents(request, agent_ids):
                code, sentence = self._no_room(request)
                agents = named(agent_ids)
                wait = f"it has waited for more than {_LIMIT}, so slots freed on {agents} are reserved for it"
                return WaitReason(code, f"{sentence}; {wait}")
            case NoRoom(request):
                if id(cause) not in self._no_rooms:
                    explain = self._no_room if request.slots else self._no_container
                    self._no_rooms[id(cause)] = explain(request)
                return self._no_rooms[id(cause)]

    @cached_property
    def _sizes(self) -> Sizes:
        return _sizes_of(a for a in self._snapshot.agents if a.is_open)

    @cached_property
    def _sizes_with_closed(self) -> Sizes:
        return _sizes_of(self._snapshot.agents)

    def _no_room(self, request: Request) -> WaitReason:
        need = self._need(request)
        agents = self._snapshot.agents
        if not any(a.slots for a in agents):
            return self._no_agents(request, need, "the pool has no agent with slots")
        usable = [a for a in agents if a.is_open and may_use(request, a)]
        is_limited = request.blocked_agents or request.capacity
        sizes = _sizes_of(usable) if is_limited else self._sizes
        if self._could_hold(sizes, request):
            return self._busy(request, need)
        if is_limited and self._could_hold(self._sizes, request):
            return _only_blocked(request, need)
        closed = [a for a in agents if not a.is_open and a.slots]
        if closed and self._could_hold(self._sizes_with_closed, request):
            return _closed_reason(closed, need)
        if self._could_hold({"": sum(sizes.values(), Counter())}, request):
            return _apart(usable, need)
        return self._no_agents(request, need, self._largest())

    def _need(self, request: Request) -> str:
        if request.slots == 1:
            return "needs 1 slot"
        slots = f"{request.slots} slots"
        if request.min_slots is not None:
            slots = f"{request.min_slots} to {request.slots} slots"
        if request.single_agent:
            return f"needs {slots} on one agent"
        kind = "wholly free agents" if self._mixes else "wholly free agents of one size"
        return f"needs {slots} on one agent or on {kind}"

    @property
    def _mixes(self) -> bool:
        return self._snapshot.settings.allow_heterogeneous_fits

    def _could_hold(self, sizes: Sizes, request: Request) -> bool:
        """Return whether agents of these sizes would suffice if they were empty."""
        return any(self._could_hold_in_one(place, request) for place in sizes.values())

    def _could_hold_in_one(self, sizes: Counter[int], request: Request) -> bool:
        slots = request.least_slots
        if any(size >= slots for size in sizes):
            return True
        if request.single_agent:
            return False
        if self._mixes and sum(size * count for size, count in sizes.items()) >= slots:
            return True
        return any(_whole_gang(request, size, count) for size, count in sizes.items())

    def _busy(self, request: Request, need: str) -> WaitReason:
        usable = [a.id for a in self._slots.agents if may_use(request, a)]
        free = {a: self._slots.free[self._slots.roster.index[a]] for a in usable}
        name = max(sorted(free), key=free.__getitem__)
        if free[name] >= request.least_slots:
            if request.strict_topology and not self._kept:
                return self._badly_linked(request, free)
            return self._kept_from(name, need)
        largest = max((size for place in self._sizes.values() for size in place), default=0)
        if largest < request.least_slots and not request.single_agent:
            return self._not_enough_whole(need)
        most = (
            f"the most any agent has free is {free[name]} ({name})"
            if free[name]
            else "none is free"
        )
        return WaitReason(WaitCode.NO_FREE_SLOTS, f"{need}; {most}; it starts when slots are freed")

    def _badly_linked(self, request: Request, free: Mapping[str, int]) -> WaitReason:
        """Return the reason of a request for which only slots with worse links than necessary are free."""
        index, slots = self._slots.roster.index, self._slots.free_slots
        names = [name for name in sorted(free) if free[name] >= request.slots]
        name = max(names, key=lambda name: slots.score(index[name], request.slots)[:2])
        has = kind_of_class(slots.score(index[name], request.slots).weakest_class)
        best = kind_of_class(slots.best_class(index[name], request.slots))
        sentence = (
            f"needs {request.slots} slots with the best links of a machine (resources.topology: strict);"
            f" {free[name]} are free on {name}, linked by {has} instead of {best}"
        )
        then = "it starts when slots with better links are freed; `topology: soft` accepts these"
        return WaitReason(WaitCode.TOPOLOGY, f"{sentence}; {then}")

    def _kept_from(self, name: str, need: str) -> WaitReason:
        """Return the reason of a request for which an agent has room that is kept for another one."""
        prefix = f"{need}; the free slots on {name} are reserved for"
        if self._kept and name in self._kept.agent_ids:
            job = job_mark(self._kept.request.job.id)
            ahead = f"{job}, which needs {self._kept.request.slots} slots and has waited for more than {_LIMIT}"
            return WaitReason(WaitCode.NO_FREE_SLOTS, f"{prefix} {ahead}; it starts after that")
        sentence = f"{prefix} a request ahead, until others leave"
        return WaitReason(WaitCode.WAITING_FOR_PREEMPTION, sentence)

    def _not_enough_whole(self, need: str) -> WaitReason:
        slots = self._slots
        with_slots = [
            index for index, agent in enumerate(slots.agents) if agent.is_open and agent.slots
        ]
        whole = sum(slots.free[index] == slots.total[index] for index in with_slots)
        verb = "is" if whole == 1 else "are"
        sentence = f"{need}; {whole} of {counted(len(with_slots), 'agent')} {verb} wholly free"
        if len(self._sizes) == 1:
            return WaitReason(WaitCode.NO_WHOLE_AGENTS, f"{sentence}; it starts when enough are")
        then = f"it starts when enough in one place are: {_STAYS}"
        return WaitReason(WaitCode.NO_WHOLE_AGENTS, f"{sentence}; {then}")

    def _largest(self) -> str:
        agent = max(self._snapshot.agents, key=lambda a: (a.slots, a.id))
        total = sum(a.slots for a in self._snapshot.agents)
        return f"the largest agent has {agent.slots} ({agent.id}) and the pool {total}"

    def _no_agents(self, request: Request, need: str, lack: str) -> WaitReason:
        largest = self._snapshot.max_slots_per_launch
        fits = largest and (
            largest >= request.least_slots
            or (not request.single_agent and (self._mixes or _is_divisible(request, largest)))
        )
        if fits:
            sentence = (
                f"{need}; {lack}; machines with up to {counted(largest or 0, 'slot')} can be added"
            )
            return WaitReason(WaitCode.NO_AGENTS, sentence)
        if not any(a.slots for a in self._snapshot.agents) and not largest:
            return WaitReason(
                WaitCode.NO_AGENTS, f"{need}; {lack}; start one, or select another pool"
            )
        way_out = "request fewer slots, select another pool, or add larger agents"
        if largest:
            lack = f"{lack}; the largest machine that can be added has {largest}"
        return WaitReason(WaitCode.TOO_LARGE, f"{need}; {lack}; {way_out}")

    def _no_container(self, request: Request) -> WaitReason:
        need = "needs an agent, but no slot"
        agents = self._snapshot.agents
        usable = [a for a in agents if a.is_open and may_use(request, a)]
        if not agents:
            return WaitReason(WaitCode.NO_AGENTS, f"{need}; the pool has no agent yet; start one")
        if usable and any(a.aux_limit for a in usable):
            limit = max(a.aux_limit for a in usable)
            sentence = f"{need}; every agent runs the maximum number of such containers ({limit})"
            return WaitReason(WaitCode.AUX_LIMIT, f"{sentence}; it starts when one of them ends")
        if usable:
            sentence = f"{need}; no agent of the pool accepts such containers; select another pool"
            return WaitReason(WaitCode.AUX_LIMIT, sentence)
        if any(a.is_open for a in agents):
            return _only_blocked(request, need)
        return _closed_reason(list(agents), need)

    def _over_limit(self, request: Request) -> WaitReason:
        limit, held_slots = self._limits.limit[request.job.id], self._limits.held[request.job.id]
        if request.least_slots > limit:
            sentence = (
                f"needs {counted(request.slots, 'slot')}, and its job may hold {limit} (max_slots)"
            )
            return WaitReason(WaitCode.MAX_SLOTS, f"{sentence}; {_RAISE_LIMIT}")
        sentence = f"its job may hold {counted(limit, 'slot')} (max_slots) and holds {held_slots}"
        return WaitReason(WaitCode.MAX_SLOTS, f"{sentence}; it starts when one of its trials ends")


def _is_divisible(request: Request, size: int) -> bool:
    """Return whether whole agents of a size have a number of slots that the request accepts."""
    return request.slots // size * size >= request.least_slots


def _whole_gang(request: Request, size: int, count: int) -> bool:
    return min(count, request.slots // size) * size >= request.least_slots


def _sizes_of(agents: Iterable[Agent]) -> Sizes:
    sizes: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for agent in agents:
        if agent.slots:
            sizes[agent.place][agent.slots] += 1
    return sizes


def _apart(agents: Iterable[Agent], need: str) -> WaitReason:
    slots = Counter[str]()
    for agent in agents:
        slots[agent.place] += agent.slots
    has = ", ".join(f"{place or 'elsewhere'} has {slots[place]}" for place in sorted(slots))
    sentence = f"{need}; {has}, and {_STAYS}"
    return WaitReason(WaitCode.NO_WHOLE_AGENTS, f"{sentence}; it starts when one place has enough")


def _only_blocked(request: Request, need: str) -> WaitReason:
    if request.capacity:
        kind = "a spot machine" if request.capacity == "spot" else "a machine on demand"
        sentence = f"{need}; its deadline needs {kind}, and the pool has no such machine yet"
        return WaitReason(WaitCode.NO_AGENTS, sentence)
    names = named(sorted(request.blocked_agents))
    sentence = f"{need}; all agents that could hold it are excluded after failures ({names})"
    return WaitReason(
        WaitCode.BLOCKED_NODES, f"{sentence}; add an agent, or start it again as a new experiment"
    )


def _closed_reason(agents: list[Agent], need: str) -> WaitReason:
    broken = [a for a in agents if a.out_of_service and a.enabled and not a.draining]
    if broken:
        return _broken(broken, need)
    largest = max(agents, key=lambda a: (a.slots, a.id))
    names = named(sorted(_with_move(a) for a in agents))
    state = "are about to move" if all(a.moves_to for a in agents) else "are disabled or draining"
    sentence = f"{need}; the agents that could hold it {state} ({names})"
    effect = "calls the move off" if largest.moves_to else "lets it start"
    return WaitReason(
        WaitCode.AGENT_DRAINING, f"{sentence}; `det agent enable {largest.id}` {effect}"
    )


def _with_move(agent: Agent) -> str:
    return f"{agent.id} to pool {agent.moves_to}" if agent.moves_to else agent.id


def _broken(agents: list[Agent], need: str) -> WaitReason:
    first = min(agents, key=lambda a: a.id)
    names = named(sorted(a.id for a in agents))
    sentence = f"{need}; the agents that could hold it are out of service ({names})"
    return WaitReason(
        WaitCode.AGENT_OUT_OF_SERVICE,
        f"{sentence}; {first.id}: {first.out_of_service}; `det-agent doctor` there shows each check",
    )
