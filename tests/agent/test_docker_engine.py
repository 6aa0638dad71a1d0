"""Detection of engines that speak Docker's protocol."""

from typing import Any

import pytest
from det_agent.docker_engine import engine_of


class Client:
    def __init__(self, version: str, *components: str) -> None:
        self._told = {"Version": version, "Components": [{"Name": name} for name in components]}

    def version(self) -> dict[str, Any]:
        return self._told


@pytest.mark.parametrize(
    ("client", "name"),
    [
        (Client("20.10.24+dfsg1", "Engine", "containerd", "runc"), "Docker 20.10.24+dfsg1"),
        (Client("28.5.2", "Engine", "rootlesskit"), "Docker 28.5.2"),
        (Client("4.3.1", "Podman Engine", "Conmon"), "Podman 4.3.1"),
        (Client("19.03"), "Docker 19.03"),
    ],
)
def test_engine_is_identified_by_its_components(client: Client, name: str) -> None:
    assert str(engine_of(client)) == name


@pytest.mark.parametrize(
    ("version", "older"), [("19.03.15", True), ("20.10.24+dfsg1", False), ("28.5-rc.1", False)]
)
def test_versions_of_engines_are_compared(version: str, older: bool) -> None:
    assert engine_of(Client(version)).older_than((20, 10)) == older
