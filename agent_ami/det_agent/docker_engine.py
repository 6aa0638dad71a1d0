"""The engines that speak Docker's protocol, and what they do differently."""

from dataclasses import dataclass
from typing import Any

DOCKER, PODMAN = "Docker", "Podman"


@dataclass(frozen=True)
class Engine:
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def makes_missing_paths(self) -> bool:
        """Return whether it makes folders of this machine that a task mounts and that are not there."""
        return self.name == PODMAN

    @property
    def asks_registries(self) -> bool:
        """Return whether it asks a registry about an image without pulling it."""
        return self.name == DOCKER

    def older_than(self, oldest: tuple[int, ...]) -> bool:
        numbers = self.version.split("+")[0].split("-")[0].split(".")[: len(oldest)]
        return tuple(int(number) for number in numbers if number.isdigit()) < oldest


def engine_of(client: Any) -> Engine:
    """Ask the engine. Raises DockerException or OSError."""
    told = client.version()
    components = {str(part.get("Name")) for part in told.get("Components") or []}
    return Engine(PODMAN if "Podman Engine" in components else DOCKER, str(told["Version"]))
