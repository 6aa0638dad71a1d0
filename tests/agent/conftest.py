import gc
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from det_agent.runtime import ContainerSessions
from det_agent.spool import Spool

from tests.support.agents import AgentProcess
from tests.support.docker import docker_engine
from tests.support.docker_image import docker_image
from tests.support.fake_controlplane import FakeControlPlane
from tests.support.gateway import KEY, OTHER, Caller, running_gateway

StartAgent = Callable[..., AgentProcess]


@pytest.fixture
def plane() -> Iterator[FakeControlPlane]:
    fake = FakeControlPlane()
    yield fake
    fake.close()


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    opened = Spool(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def caller(plane: FakeControlPlane, tmp_path: Path) -> Iterator[Caller]:
    for name in ("logs", "reports"):
        (tmp_path / name).mkdir()
    sessions, spool = ContainerSessions(), Spool(tmp_path / "logs")
    sessions.open(KEY)
    sessions.open(OTHER)
    with running_gateway(plane.url, tmp_path, sessions, spool) as gateway:
        yield Caller(gateway, sessions, spool)
    spool.close()


@pytest.fixture
def start_agent(plane: FakeControlPlane, tmp_path: Path) -> Iterator[StartAgent]:
    agents: list[AgentProcess] = []

    def start(environ: Mapping[str, str] | None = None, **options: str) -> AgentProcess:
        folder = tmp_path / f"agent-{len(agents)}"
        folder.mkdir()
        agents.append(AgentProcess(plane.url, folder, environ, **options))
        return agents[-1]

    yield start
    for agent in agents:
        agent.close()


@pytest.fixture(scope="session")
def docker_client() -> Iterator[Any]:
    """A Docker engine with the test image; DOCKER_HOST names it for agents."""
    client = docker_engine()
    docker_image(client)
    yield client
    client.close()
    _bury_sockets()


@pytest.fixture(autouse=True)
def no_sockets_of_the_docker_library_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect sockets of the docker library here: the garbage collector would complain in a later test."""
    yield
    if "docker_client" in request.fixturenames:
        _bury_sockets()


def _bury_sockets() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests with the docker library ignore its sockets, of which the garbage collector complains in any test."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
