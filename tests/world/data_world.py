"""A simulated pool in which agents cache data sets: the scheduler's decisions and the eviction rule, without processes.

Tasks arrive, start where `decide` places them, load the objects that their agent lacks, wait there while tasks in use
leave too little room, and end. Each step checks the rules.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random

from det_controlplane.core.datasets.eviction import CachedObject, make_room
from det_controlplane.core.placement.model import Agent
from det_controlplane.core.schedule import (
    Job,
    PoolSettings,
    PoolSnapshot,
    Request,
    Running,
    decide,
)

from tests.world.violation import Violation

CAPACITY = 100
OBJECTS, SIZE = 4, 10  # of each data set
SOURCES = tuple(f"s3://bucket/{name}" for name in "abcdef")

Evict = Callable[[Iterable[CachedObject], int, int], list[str] | None]


@dataclass
class CachingAgent:
    """The objects on an agent's disk, and the tasks there with the objects that they hold."""

    id: str
    slots: int
    objects: dict[str, float] = field(default_factory=dict)  # when they were used last
    held: dict[str, frozenset[str]] = field(default_factory=dict)  # by task that reads
    waiting: dict[str, frozenset[str]] = field(default_factory=dict)  # by task that needs room

    def load(self, now: float, evict: Evict) -> None:
        """Let waiting tasks load the data that fits, in the order of their arrival."""
        for task, wanted in list(self.waiting.items()):
            in_use = {name for names in self.held.values() for name in names} | wanted
            missing = wanted - self.objects.keys()
            cached = [
                CachedObject(name, SIZE, used_at, name in in_use)
                for name, used_at in self.objects.items()
            ]
            leaving = evict(cached, SIZE * len(missing), CAPACITY)
            if leaving is None:
                continue
            for name in leaving:
                del self.objects[name]
            self.objects.update(dict.fromkeys(wanted, now))
            self.held[task] = self.waiting.pop(task)

    def check(self) -> None:
        if SIZE * len(self.objects) > CAPACITY:
            raise Violation(f"{self.id} caches more than its capacity")
        for task, names in self.held.items():
            if not names <= self.objects.keys():
                raise Violation(f"{self.id} evicted data of the running task {task}")

    def data_sets(self) -> tuple[tuple[str, int], ...]:
        held = Counter(name.partition("#")[0] for name in self.objects)
        return tuple((source, SIZE * count) for source, count in sorted(held.items()))


class DataWorld:
    def __init__(self, seed: int, evict: Evict = make_room) -> None:
        self._rng, self._evict, self._now = Random(seed), evict, 0.0
        self._settings = PoolSettings(fitting_policy=self._rng.choice(("best", "worst")))
        self.agents = {
            f"agent-{n}": CachingAgent(f"agent-{n}", self._rng.choice((1, 2, 4)))
            for n in range(self._rng.randint(1, 4))
        }
        self._pending: list[Request] = []
        self._running: list[Running] = []
        self.started = self.chosen = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._step()

    def drain(self) -> None:
        """Let all tasks end, and check that none waits for ever."""
        for _ in range(10_000):
            if not self._pending and not self._running:
                return
            self._step(arrivals=False)
        raise Violation("tasks wait for ever")

    def _step(self, *, arrivals: bool = True) -> None:
        self._now += 1
        if arrivals and self._rng.random() < 0.7:
            self._pending.append(self._new_request())
        self._end_some()
        self._schedule()
        for agent in self.agents.values():
            agent.load(self._now, self._evict)
            agent.check()

    def _new_request(self) -> Request:
        id = f"task-{self._now:.0f}"
        job = Job(42, int(self._now), id, 1.0, None, self._now)
        sources = self._rng.sample(SOURCES, self._rng.choice((0, 1, 1, 2)))
        slots = self._rng.randint(1, max(agent.slots for agent in self.agents.values()))
        return Request(id, job, slots, self._now, single_agent=True, data_sets=tuple(sources))

    def _end_some(self) -> None:
        for running in list(self._running):
            (place,) = running.placements
            agent = self.agents[place.agent_id]
            if running.allocation_id in agent.held and self._rng.random() < 0.3:
                del agent.held[running.allocation_id]
                self._running.remove(running)

    def _schedule(self) -> None:
        snapshot = self._snapshot()
        plan = decide(snapshot, self._now)
        plain = replace(snapshot, agents=tuple(a._replace(data_sets=()) for a in snapshot.agents))
        without = decide(plain, self._now)
        if [s.allocation_id for s in plan.start] != [s.allocation_id for s in without.start]:
            raise Violation("the preference for data changes which tasks start")
        requests = {request.allocation_id: request for request in self._pending}
        for start in plan.start:
            request = requests.pop(start.allocation_id)
            self._begin(request, start.placements[0].agent_id)
            self._running.append(
                Running(
                    request.allocation_id, request.job, request.slots, start.placements,
                    preemptible=True, releasing=False, requested_at=request.requested_at,
                )
            )  # fmt: skip
            self.started += 1
            self.chosen += "was chosen because it holds" in start.data_reason
        self._pending = list(requests.values())

    def _begin(self, request: Request, agent_id: str) -> None:
        names = (f"{source}#{n}" for source in request.data_sets for n in range(OBJECTS))
        self.agents[agent_id].waiting[request.allocation_id] = frozenset(names)

    def _snapshot(self) -> PoolSnapshot:
        used = Counter[str]()
        for running in self._running:
            used[running.placements[0].agent_id] += running.slots
        agents = tuple(
            Agent(agent.id, agent.slots, used[agent.id], data_sets=agent.data_sets())
            for agent in self.agents.values()
        )
        return PoolSnapshot(self._settings, agents, tuple(self._pending), tuple(self._running))
