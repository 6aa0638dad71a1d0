"""The interfaces through which actors see their world, so that no actor imports it."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol

from tests.world.faults import Rates
from tests.world.invariants import Invariants
from tests.world.ledger import Ledger
from tests.world.outages import Outage
from tests.world.processes import Done, Process
from tests.world.script import Call, Reply
from tests.world.timeline import Timeline

Answered = Callable[[Reply], None]
Judge = Callable[[Reply], None]


class Actor(Protocol):
    """A participant of the world, such as an agent or a user."""

    def begin(self) -> None:
        """Plan the first acts on the timeline."""
        ...

    def calm_down(self) -> None:
        """Stop all faults and finish the work."""
        ...


class Service(Protocol):
    """Work of the control plane: a request, a tick."""

    label: str

    def work(self, process: Process) -> Done:
        """Work in a process that may be interrupted."""
        ...

    def lost(self) -> None:
        """Handle that the process died, or could not work."""
        ...


class Sender(Protocol):
    def send(self, call: Call, response: Answered, judge: Judge | None = None) -> None:
        """Carry a request to the control plane; `answered` hears the answer or SILENCE, exactly once."""
        ...


class AgentOnStage(Protocol):
    """An agent as users see it."""

    @property
    def id(self) -> str: ...
    @property
    def slots(self) -> int: ...


class Stage(Protocol):
    rates: Rates
    timeline: Timeline
    ledger: Ledger
    calm: bool

    @property
    def outage(self) -> Outage | None:
        """Return the current outage of the control plane, or None."""
        ...

    @property
    def network(self) -> Sender: ...
    @property
    def invariants(self) -> Invariants: ...
    @property
    def agents(self) -> Sequence[AgentOnStage]: ...

    def stream(self, name: str) -> Random:
        """Return randomness of its own for an actor."""
        ...

    def serve(
        self, service: Service, delay_s: float, still_wanted: Callable[[], bool] = ...
    ) -> None:
        """Let the control plane work on it after a delay, if it is still wanted then."""
        ...


class ContainerHost(Protocol):
    """An agent as its containers see it."""

    @property
    def world(self) -> Stage: ...
    @property
    def answers_containers(self) -> bool:
        """Return whether the gateway of its containers gets through."""
        ...

    @property
    def says_what_it_has(self) -> bool:
        """Return whether the agent lists its containers when it joins. Agents of earlier versions do not."""
        ...

    @property
    def token(self) -> str:
        """Return the token of the agent; empty while it has none."""
        ...

    def poll_soon(self) -> None: ...


class RunningContainer(Protocol):
    """A container as its program sees it."""

    id: str
    allocation_id: str
    spec: dict[str, Any]
    preempted: bool
    rng: Random

    @property
    def agent(self) -> ContainerHost: ...
