"""The simulated world: real services on a real PostgreSQL, everything around them played by a seed."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from det_controlplane.core.config import ClusterConfig
from det_controlplane.core.lifecycle.agent import FRESH, LONGEST_WATCHING_PAUSE
from det_controlplane.db.engine.errors import DatabaseDown, TryAgain
from det_controlplane.services.search import journal

from tests.world import faults
from tests.world.agents import FakeAgent
from tests.world.configurations import cluster_config
from tests.world.faults import PEACE, Blocked, Died, Interruption, Rates
from tests.world.hosts import Hosts
from tests.world.invariants import Invariants, Violation
from tests.world.ledger import Ledger
from tests.world.network import Network
from tests.world.outages import Outage, Outages, wait_for
from tests.world.processes import Process
from tests.world.stage import Actor, Service
from tests.world.ticking import Rounds, Ticking
from tests.world.timeline import Action, Timeline
from tests.world.users import FakeUser

_NEARBY_S = 10.0  # how far ahead a request may be that overtakes another
_AFTER_OUTAGE_S = 120.0  # the trouble after an outage lasts this long
_HURRIED = 12  # the number of actors that may act early so that a request overtakes another
# Among how many points of a step an interruption is drawn.
_STATEMENTS, _SIDES = 14, 6


@dataclass(frozen=True, slots=True)
class Summary:
    seed: int
    steps: int
    virtual_s: float
    experiments: int  # that were made, deleted ones too
    machines: int = 0  # that were rented


class World:
    """`World(seed, hosts).run()` plays one history; it raises `Violation` where an invariant breaks."""

    _longest_quiet_s = 2700.0
    _longest_outage_s = 86_400.0

    def __init__(
        self, seed: int, hosts: Hosts, *, rates: Rates | None = None, chaos_s: float = 240.0
    ) -> None:
        self.seed = seed
        self.rates = rates or Rates()
        self.timeline = Timeline()
        self.ledger = Ledger()
        self.steps = 0
        self.calm = False
        self.history: list[str] = []
        self._chaos_s = chaos_s
        self._rng = self.stream("world")
        self._hosts = hosts
        self._deferred: list[Service] = []
        self._topics: set[str] = set()
        self.ticking = Ticking(self, self.stream("ticks"))
        self.network = Network(self, self.stream("network"))
        hosts.reset(
            self.timeline, self.stream("control plane"), lambda topic: self._topics.add(topic)
        )
        for process in hosts.processes:
            process.ctx.host.reach_api = lambda: self.outage is None
        self.invariants = Invariants(hosts, self.ledger, self.timeline)
        self.outages = Outages(
            self, self.stream("outages"), chaos_s, longest_s=self._longest_outage_s
        )
        self.agents: list[FakeAgent] = []
        self.actors: list[Actor] = [self.outages]
        self._populate()

    def _populate(self) -> None:
        """Draw the cluster, and everything that acts in it."""
        self._configure(cluster_config(self.stream("cluster")))
        slots = self._rng.choice((1, 2, 2, 4))
        self.agents += [
            FakeAgent(self, f"agent-{n}", slots) for n in range(self._rng.randint(1, 3))
        ]
        users = [FakeUser(self, n) for n in range(self._rng.randint(1, 2))]
        self.actors += [*self.agents, *users]

    @property
    def outage(self) -> Outage | None:
        return self.outages.now

    def lose_memories(self) -> None:
        for process in self._hosts.processes:
            process.restart()

    def answer_again(self, lasted_s: float) -> None:
        """Tick a moment after the end of an outage, before most agents have polled."""
        self._chaos_s = max(self._chaos_s, self.timeline.seconds + _AFTER_OUTAGE_S)
        # A shorter pause between two ticks is usual.
        if lasted_s > LONGEST_WATCHING_PAUSE.total_seconds():
            self.invariants.answering_since = self.timeline.now()
        self.ticking.wake()

    def _configure(self, config: ClusterConfig) -> None:
        self.config = config
        for process in self._hosts.processes:
            process.configure(config)

    def stream(self, name: str) -> Random:
        """Return a random generator for each actor, so that one more draw of an actor does not change others."""
        return Random(f"{self.seed}/{name}")

    def run(self) -> Summary:
        with _errors_of_the_log() as log_errors, _frequent_snapshots():
            try:
                self._live(log_errors)
            except (Violation, AssertionError) as e:
                raise Violation(self._told(e)) from e
        return Summary(self.seed, self.steps, self.timeline.seconds, len(self.ledger.experiments))

    def _live(self, log_errors: list[str]) -> None:
        for actor in self.actors:
            actor.begin()
        self.ticking.begin()
        while self.timeline.seconds < self._chaos_s or self.outage is not None:
            self._next(log_errors)
        self._calm_down()
        deadline = self.timeline.seconds + self._longest_quiet_s
        while not self._is_over():
            if self.timeline.seconds > deadline:
                raise Violation(f"it does not come to an end: {self.invariants.unfinished()}")
            for _ in range(10):
                self._next(log_errors)
        self._check_end()

    def _calm_down(self) -> None:
        self.calm, self.rates = True, PEACE
        for actor in self.actors:
            actor.calm_down()

    def _is_over(self) -> bool:
        return self.invariants.everything_ended()

    def _check_end(self) -> None:
        self.invariants.check_end(self._hosts)

    def _next(self, log_errors: list[str]) -> None:
        self.timeline.next()()
        if log_errors:
            raise Violation(f"an error was logged: {log_errors[0]}")

    def serve(
        self, service: Service, delay_s: float, still_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        self.timeline.after(delay_s, _Served(self, service, still_wanted))

    def perform(self, service: Service) -> None:
        """Perform one step: a process works, is perhaps interrupted, and afterwards everything must hold."""
        outage = self.outage
        if outage is not None and not (outage.is_api_only and isinstance(service, Rounds)):
            self._meet_outage(service)
            return
        process = self._rng.choice(self._hosts.processes)
        self.steps += 1
        self._carry_out(process, service, self._drawn(process), in_a_hurry=False)
        while self._deferred:
            waited = self._deferred.pop()
            self._carry_out(self._other(process), waited, [], in_a_hurry=False)
        self._wake()
        if self._hosts.wrote():
            self._check_step()

    def _meet_outage(self, service: Service) -> None:
        """Work on a request after a stall that it meets; drop one that meets downtime."""
        if not wait_for(self.outage, self.timeline, lambda: self.perform(service)):
            service.lost()

    def _check_step(self) -> None:
        outage = self.outage
        if outage is None or not outage.is_api_only:
            self.invariants.unheard_s = 0.0
        else:
            noticed_at = outage.began_at + FRESH.total_seconds()
            self.invariants.unheard_s = max(0.0, self.timeline.seconds - noticed_at)
        self.invariants.check_step(self._hosts)

    def _carry_out(
        self,
        process: Process,
        service: Service,
        interruptions: list[Interruption],
        *,
        in_a_hurry: bool,
    ) -> None:
        process.points.begin_step(interruptions, in_a_hurry=in_a_hurry)
        try:
            result = service.work(process)
        except Blocked:
            self._deferred.append(service)
            self._note(process, service, "waits for a lock")
        except Died:
            process.restart()
            self._note(process, service, "died")
            service.lost()
        except (DatabaseDown, TryAgain):
            self._note(process, service, "without the database")
            service.lost()
        else:
            self._note(process, service, result.said)
            result.then()
        finally:
            process.points.begin_step([], in_a_hurry=False)

    def _drawn(self, process: Process) -> list[Interruption]:
        rates, rng = self.rates, self._rng
        drawn = []
        if rng.random() < rates.dies:
            drawn.append(self._somewhere(faults.die))
        if rng.random() < rates.database_fails:
            drawn.append(self._somewhere(rng.choice((faults.lose_the_database, faults.collide))))
        if rng.random() < rates.interleaved and self.outage is None:
            drawn.append(self._somewhere(lambda: self._interleave(process)))
        return drawn

    def _somewhere(self, happens: Callable[[], None]) -> Interruption:
        if self._rng.random() < 0.5:
            return Interruption(self._rng.randint(1, _SIDES), happens, between_transactions=True)
        return Interruption(self._rng.randint(1, _STATEMENTS), happens)

    def _interleave(self, around: Process) -> None:
        """Serve another request by the other process in the middle of this one."""
        service = self._overtaking()
        if service is None:
            return
        dies = self._rng.random() < self.rates.dies
        self.steps += 1
        self._carry_out(
            self._other(around),
            service,
            [self._somewhere(faults.die)] if dies else [],
            in_a_hurry=True,
        )

    def _overtaking(self) -> Service | None:
        """Let actors that were to act soon act now, until one of their requests is there."""
        for _ in range(_HURRIED):
            action = self.timeline.take(self._may_overtake, _NEARBY_S, self._rng)
            if isinstance(action, _Served):
                if action.still_wanted():
                    return action.service
            elif action is not None:
                action()
        return None

    def _may_overtake(self, action: Action) -> bool:
        """Return whether an actor may overtake: ticks are always near; mostly something else is more interesting."""
        tick = isinstance(action, _Served) and action.service is self.ticking
        return not tick or self._rng.random() < 0.1

    def _other(self, process: Process) -> Process:
        return next(p for p in self._hosts.processes if p is not process)

    def _wake(self) -> None:
        """Wake topics in a random order, because the product wakes them in the order of a set."""
        topics, self._topics = sorted(self._topics), set()
        for topic in topics:
            if self._rng.random() < self.rates.wake_lost:
                continue
            self._woken(topic)

    def _woken(self, topic: str) -> None:
        if topic == "schedule":
            self.ticking.wake()
        for agent in self.agents:
            if topic == f"agent:{agent.id}":
                agent.wake()

    def _note(self, process: Process, service: Service, message: str) -> None:
        at = self.timeline.seconds
        self.history.append(f"{at:8.2f} {process.name} {service.label} {message}")

    def _told(self, e: BaseException) -> str:
        last = "\n".join(self.history[-25:])
        return f"{e}\n{last}\nagain: make sim SEEDS=1 FIRST_SEED={self.seed}"


class _Served:
    """A service on the timeline."""

    def __init__(self, world: World, service: Service, still_wanted: Callable[[], bool]) -> None:
        self._world = world
        self.service = service
        self.still_wanted = still_wanted

    def __call__(self) -> None:
        if self.still_wanted():
            self._world.perform(self.service)


@contextmanager
def _frequent_snapshots() -> Iterator[None]:
    """Take snapshots often: a world has few events, and the replay from a snapshot would never be seen."""
    usual, journal.SNAPSHOT_EVERY = journal.SNAPSHOT_EVERY, 7
    try:
        yield
    finally:
        journal.SNAPSHOT_EVERY = usual


class _errors_of_the_log(logging.Handler):
    """Counts the errors that the product logs and swallows."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._found: list[str] = []
        self._logger = logging.getLogger("det")

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            if isinstance(record.exc_info[1], (DatabaseDown, TryAgain)):
                return
            text = f"{text}: {record.exc_info[1]!r}"
        self._found.append(text)

    def __enter__(self) -> list[str]:
        self._level, self._propagate = self._logger.level, self._logger.propagate
        self._logger.addHandler(self)
        self._logger.propagate = False
        return self._found

    def __exit__(self, *exc: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagate
