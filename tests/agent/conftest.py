from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.agents import AgentProcess
from tests.support.fake_controlplane import FakeControlPlane

StartAgent = Callable[..., AgentProcess]


@pytest.fixture
def plane() -> Iterator[FakeControlPlane]:
    fake = FakeControlPlane()
    yield fake
    fake.close()


@pytest.fixture
def start_agent(plane: FakeControlPlane, tmp_path: Path) -> Iterator[StartAgent]:
    agents: list[AgentProcess] = []

    def start(**options: str) -> AgentProcess:
        folder = tmp_path / f"agent-{len(agents)}"
        folder.mkdir()
        agents.append(AgentProcess(plane.url, folder, **options))
        return agents[-1]

    yield start
    for agent in agents:
        agent.close()
