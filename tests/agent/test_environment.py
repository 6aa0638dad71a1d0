"""The environment that an agent gives a container."""

import pytest
from det_agent.environment import AgentEnvironment, container_env
from det_controlplane.core.agent_protocol import ContainerSpec

from tests.support.agents import make_spec

HERE = AgentEnvironment(agent_id="a", runtime="process", master_host="127.0.0.1", master_port=1)


@pytest.fixture(autouse=True)
def agents_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_ROOT", "/mnt/data")
    monkeypatch.setenv("DET_TOKEN_FILE", "/etc/token")
    monkeypatch.delenv("NOWHERE", raising=False)


def test_bare_name_copies_the_agents_value_if_present() -> None:
    env = container_env(
        ContainerSpec.from_json(make_spec("true", env_of_agent=["DATA_ROOT", "NOWHERE"])), HERE
    )
    assert env["DATA_ROOT"] == "/mnt/data"
    assert "NOWHERE" not in env


def test_task_value_overrides_the_agents_value() -> None:
    spec = make_spec("true", env={"DATA_ROOT": "mine"}, env_of_agent=["DATA_ROOT"])
    assert container_env(ContainerSpec.from_json(spec), HERE)["DATA_ROOT"] == "mine"


def test_agent_settings_are_not_copied() -> None:
    env = container_env(
        ContainerSpec.from_json(make_spec("true", env_of_agent=["DET_TOKEN_FILE"])), HERE
    )
    assert "DET_TOKEN_FILE" not in env
