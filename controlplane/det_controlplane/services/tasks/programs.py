"""What runs in the container of each kind of interactive task, and where it serves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.core.config import TaskConfig

ENTRY = ("python3", "-m", "determined.exec.entry", "--")


@dataclass(frozen=True, slots=True)
class Program:
    """The command of a container, what it finds in files and variables, and the ports behind /proxy/."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[Mapping[str, Any]] = ()
    proxies: Sequence[Mapping[str, Any]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # kept with the configuration

    def stored(self, config: TaskConfig) -> dict[str, Any]:
        """Return the configuration with what only the container's machine reads, under names that users cannot give."""
        own: dict[str, Any] = {"_command": [*ENTRY, *self.command]}
        if self.environment:
            own["_environment"] = dict(self.environment)
        if self.files:
            own["_files"] = [dict(file) for file in self.files]
        return {**config.to_json(), **own, **self.settings}


def shown(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored configuration as its users know it."""
    return {name: value for name, value in config.items() if not name.startswith("_")}


def of_command(config: TaskConfig, task_id: str) -> Program:
    """Run the arguments as they are; a single one is a line for the shell."""
    words = tuple(config.entrypoint or ())
    command = ("sh", "-c", *words) if len(words) == 1 else words
    return Program(command, proxies=_own_ports(config, task_id))


def _own_ports(config: TaskConfig, task_id: str) -> list[dict[str, Any]]:
    """Return the ports that the user's program serves."""
    ports = sorted(config.environment.proxy_ports, key=lambda p: not p.default_service_id)
    return [
        {
            "port": p.proxy_port, "tcp": p.proxy_tcp, "unauthenticated": p.unauthenticated,
            "id": task_id if p.default_service_id else f"{task_id}:{p.proxy_port}",
        }
        for p in ports
    ]  # fmt: skip
