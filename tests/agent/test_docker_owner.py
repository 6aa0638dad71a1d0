"""Agents of a cluster and of its restored copy have the same id, but do not adopt each other's containers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from det_agent.docker_options import LABEL, labels
from det_agent.docker_runtime import DockerRuntime
from det_agent.harness_mount import Payload
from det_agent.identity import StateDirectory
from det_agent.runtime import ContainerKey

PAYLOAD = Payload({"determined": Path("/venv/determined")}, {})


class Engine:
    """Lists containers by labels, as Docker does: every filter must match."""

    def __init__(self) -> None:
        self.containers = self
        self.made: list[dict[str, str]] = []

    def list(self, *, filters: dict[str, list[str]], **_: Any) -> list[SimpleNamespace]:
        expected_labels = [text.partition("=")[::2] for text in filters["label"]]
        return [
            SimpleNamespace(
                id=container[f"{LABEL}id"],
                labels=container,
                attrs={"Config": {"Env": []}, "HostConfig": {"NetworkMode": "host"}},
            )
            for container in self.made
            if all(container.get(name) == value for name, value in expected_labels)
        ]


def adopted(engine: Engine, owner: str) -> list[str]:
    runtime = DockerRuntime(engine, "agent", lambda: "cluster", (), PAYLOAD, owner)
    return [container.key.id for container in runtime.adoptable("cluster")]


def test_agent_adopts_only_its_own_and_unowned_containers() -> None:
    engine = Engine()
    for name, owner in (("original", "a"), ("copy", "b")):
        key = ContainerKey(name, 1, "alloc", "task", "", ())
        engine.made.append(labels(key, "agent", "cluster", (), owner))
    earlier = labels(ContainerKey("earlier", 1, "alloc", "task", "", ()), "agent", "cluster", ())
    del earlier[f"{LABEL}owner"]
    engine.made.append(earlier)
    assert adopted(engine, "a") == ["original", "earlier"]
    assert adopted(engine, "b") == ["copy", "earlier"]


def test_owner_survives_a_restart_and_does_not_reveal_the_key(tmp_path: Path) -> None:
    first = StateDirectory(tmp_path / "agent")
    owner = first.agent_key_hash()
    assert StateDirectory(tmp_path / "agent").agent_key_hash() == owner
    assert owner not in first.agent_key()
    assert StateDirectory(tmp_path / "another").agent_key_hash() != owner
