"""The kinds of outages: the parts that fail, and the times at which they fail and recover."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.outages.site import Site, SiteAgent

Act = Callable[[Site, SiteAgent], None]


# Agents pause between their attempts, so an agent reaches a recovered API up to this time later.
PAUSE_S = 5.0


@dataclass(frozen=True)
class Step:
    """An act at a fraction of the outage's length, or some seconds later: 0 is its beginning, 1 its end."""

    at: float
    act: Act
    later_s: float = 0.0


@dataclass(frozen=True)
class Kind:
    """A kind of outage. Kinds of one site share a cluster: a kind does not disturb the agents of another kind."""

    name: str
    site: str
    meaning: str
    steps: tuple[Step, ...]
    # Quick trials end their training during the outage, because training only needs the agent.
    trains_on: bool = True
    # The API works during the outage, and may declare the agent lost.
    api_works: bool = False
    # The API works but gets no requests from the agent, for the share `silence` of the outage.
    is_silent: bool = False
    silence: float = 1.0
    # The agent is a child of the cluster's supervisor; the next supervisor starts a new agent.
    is_supervised: bool = False
    # `make test` skips other kinds.
    usual: bool = True


def _cut(_: Site, agent: SiteAgent) -> None:
    agent.link.cut("requests", "answers")


def _cut_answers(_: Site, agent: SiteAgent) -> None:
    agent.link.cut("answers")


def _heal(_: Site, agent: SiteAgent) -> None:
    agent.link.heal()


def _kill_agent(_: Site, agent: SiteAgent) -> None:
    agent.process.kill()


def _start_agent(_: Site, agent: SiteAgent) -> None:
    agent.process.restart()


def _stop_api(site: Site, _: SiteAgent) -> None:
    site.stop_api()


def _stop_database(site: Site, _: SiteAgent) -> None:
    site.stop_database()


def _continue(site: Site, _: SiteAgent) -> None:
    site.continue_stopped()


def _crash(site: Site, _: SiteAgent) -> None:
    site.kill_control_plane()


def _start(site: Site, _: SiteAgent) -> None:
    site.start_control_plane()


KINDS = (
    Kind(
        "hole",
        "network",
        "no packet passes between the agent and the API",
        (Step(0, _cut), Step(1, _heal)),
        api_works=True,
        is_silent=True,
    ),
    Kind(
        "answers",
        "network",
        "requests of the agent arrive, and the answers are lost",
        (Step(0, _cut_answers), Step(1, _heal)),
        api_works=True,
    ),
    Kind(
        "agent",
        "network",
        "the agent is killed and started again; its containers go on",
        (Step(0, _kill_agent), Step(1, _start_agent)),
        trains_on=False,
        api_works=True,
        is_silent=True,
    ),
    Kind(
        "api",
        "api",
        "the API is stopped by SIGSTOP, and the agent's next request comes a moment after SIGCONT",
        (Step(0, _cut), Step(0, _stop_api), Step(1, _continue), Step(1, _heal, PAUSE_S)),
    ),
    Kind(
        "api-asked",
        "api",
        "the API is stopped by SIGSTOP, and requests wait for it at SIGCONT",
        (Step(0, _stop_api), Step(1, _continue)),
        usual=False,
    ),
    Kind(
        "database",
        "database",
        "PostgreSQL is stopped by SIGSTOP, and the agent's next request comes a moment after SIGCONT",
        (Step(0, _cut), Step(0, _stop_database), Step(1, _continue), Step(1, _heal, PAUSE_S)),
    ),
    Kind(
        "database-asked",
        "database",
        "PostgreSQL is stopped by SIGSTOP, and requests wait for it at SIGCONT",
        (Step(0, _stop_database), Step(1, _continue)),
        usual=False,
    ),
    Kind(
        "crash",
        "crash",
        "supervisor, API and PostgreSQL are killed and started again; the agent's next request comes a moment later",
        (Step(0, _crash), Step(1, _cut), Step(1, _start), Step(1, _heal, PAUSE_S)),
    ),
    Kind(
        "crash-supervised",
        "crash",
        "the same, with an agent of the supervisor, whose next process replaces it",
        (Step(0, _crash), Step(1, _start)),
        is_supervised=True,
    ),
    Kind(
        "crash-and-agent",
        "crash",
        "supervisor, API, PostgreSQL and the agent are killed; the agent starts a moment after the others",
        (Step(0, _kill_agent), Step(0, _crash), Step(1, _start), Step(1, _start_agent, PAUSE_S)),
        trains_on=False,
        usual=False,
    ),
    Kind(
        "crash-then-agent",
        "crash-then-agent",
        "all four are killed; the others start after a third of the time, the agent at the end",
        (Step(0, _kill_agent), Step(0, _crash), Step(1 / 3, _start), Step(1, _start_agent)),
        trains_on=False,
        api_works=True,
        is_silent=True,
        silence=2 / 3,
        usual=False,
    ),
)
NAMES = tuple(kind.name for kind in KINDS)


def kinds_named(names: Sequence[str]) -> list[Kind]:
    unknown = set(names) - set(NAMES)
    if unknown:
        raise ValueError(
            f"no kind of outage: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}"
        )
    return [kind for kind in KINDS if kind.name in names]
