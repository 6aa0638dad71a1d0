"""Define the program of each kind of interactive task, and the port on which it serves."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from det_controlplane.core.agent_protocol import ENTRY
from det_controlplane.core.config import TaskConfig
from det_controlplane.core.lifecycle.task import TaskKind
from det_controlplane.core.secrets import HIDDEN

# Lowest numbers of the ports on which the container of a kind serves; each kind has three hundred. The terminals of a
# shell are as many ports above it.
LOWEST_PORTS = {TaskKind.TENSORBOARD: 2600, TaskKind.NOTEBOOK: 2900, TaskKind.SHELL: 3200}
PORTS_OF_A_KIND = 300
_SSH = "/run/determined/ssh/authorized_keys"
_TENSORBOARD = "/run/determined/tensorboard.json"


@dataclass(frozen=True, slots=True)
class Program:
    """The command of a container, its files and variables, and its ports behind /proxy/."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[Mapping[str, Any]] = ()
    proxies: Sequence[Mapping[str, Any]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # kept with the configuration

    def seeing(self, mounts: Sequence[Mapping[str, Any]]) -> "Program":
        """Return the program with mounts that its user has not asked for."""
        return replace(self, settings={**self.settings, "_mounts": [dict(m) for m in mounts]})

    def stored(self, kind: TaskKind, config: TaskConfig) -> dict[str, Any]:
        """Return the configuration with the fields for the agent, under names that users cannot use."""
        own: dict[str, Any] = {"_command": [*ENTRY, "--", *self.command]}
        if self.environment:
            own["_environment"] = dict(self.environment)
        if self.files:
            own["_files"] = [dict(file) for file in self.files]
        own["_ports"] = [port["port"] for port in self.proxies]
        return {**shown_of(kind, config), **own, **self.settings}


def shown_of(kind: TaskKind, config: TaskConfig) -> dict[str, Any]:
    """Return a configuration as users of this kind of task know it."""
    return config.of_kind(kind)


def shown(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored configuration as its users know it."""
    return {name: value for name, value in config.items() if not name.startswith("_")}


@dataclass(frozen=True, slots=True)
class ProgramContext:
    """The facts of a task that its program gets: its id, the port that is free for it, and the token that opens it."""

    task_id: str
    port: int
    token: str


def of_command(config: TaskConfig, place: ProgramContext) -> Program:
    """Return the program of a command: its arguments as they are, or a line for the shell if there is only one.

    A command without arguments ends well after the startup hook."""
    words = tuple(config.entrypoint or ("true",))
    command = ("sh", "-c", *words) if len(words) == 1 else words
    return Program(command, proxies=_own_ports(config, place.task_id))


def of_notebook(config: TaskConfig, place: ProgramContext) -> Program:
    environment = {
        "NOTEBOOK_PORT": str(place.port),
        "NOTEBOOK_IDLE_TYPE": config.notebook_idle_type,
        "DET_NOTEBOOK_TOKEN": place.token,
    }
    command = _module("notebook", config)
    return Program(command, environment, proxies=_ports(config, place))


def of_shell(config: TaskConfig, place: ProgramContext) -> Program:
    """Return the program of a shell, which opens to its private key and its terminals' token; only the owner gets them."""
    ssh = _ports(config, place, tcp=True, unauthenticated=True)
    environment, terminals = {"SHELL_PORT": str(place.port)}, []
    if not config.entrypoint:
        port = place.port + PORTS_OF_A_KIND
        environment |= {"TERMINAL_PORT": str(port), "DET_TERMINAL_TOKEN": place.token}
        terminals = [
            {"port": port, "tcp": True, "unauthenticated": False, "id": f"{place.task_id}:{port}"}
        ]
    public, private = _key_pair()
    key = base64.b64encode(f"{public}\n".encode()).decode()
    return Program(
        _module("shell", config),
        environment,
        files=[{"path": _SSH, "mode": 0o600, "content_b64": key}],
        proxies=[*ssh, *terminals],
        settings={"_shell": {"public_key": public, "private_key": private}},
    )


def of_tensorboard(
    config: TaskConfig,
    place: ProgramContext,
    sources: Sequence[Mapping[str, Any]],
    reads: Mapping[str, Any],
) -> Program:
    """Return the program of a TensorBoard: `sources` has the places of event files, `reads` the user's request."""
    work = {"sources": list(sources), "args": list(config.tensorboard_args)}
    return Program(
        _module("tensorboard", config),
        {"TENSORBOARD_PORT": str(place.port), "TF_CPP_MIN_LOG_LEVEL": "3"},
        files=[{"path": _TENSORBOARD, "mode": 0o600, "content": work}],
        proxies=_ports(config, place),
        settings={"_reads": dict(reads), "_token": place.token},
    )


def terminal_port(proxies: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the port of a shell's terminals by its ports; one with a program of its user's own has none."""
    ports = [int(p["port"]) for p in proxies]
    port = ports[0] + PORTS_OF_A_KIND if ports else 0
    return port if port in ports else None


def terminal_token(config: Mapping[str, Any]) -> str | None:
    """Return the token of a shell's terminals from its configuration with secrets; None where it cannot be read."""
    token = (config.get("_environment") or {}).get("DET_TERMINAL_TOKEN")
    return None if token in (None, HIDDEN) else str(token)


def _module(name: str, config: TaskConfig) -> tuple[str, ...]:
    """Return the command that serves; the user's own replaces it."""
    return config.entrypoint or ("python3", "-m", f"determined.exec.{name}")


def _key_pair() -> tuple[str, str]:
    """Return a new public and private key, as OpenSSH writes them."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    return public.decode(), private.decode()


def _ports(
    config: TaskConfig, place: ProgramContext, *, tcp: bool = False, unauthenticated: bool = False
) -> list[dict[str, Any]]:
    """Return the port of the program and the ports of the user's programs."""
    own = {"port": place.port, "tcp": tcp, "unauthenticated": unauthenticated, "id": place.task_id}
    others = _own_ports(config, place.task_id)
    return [own, *({**p, "id": f"{place.task_id}:{p['port']}"} for p in others)]


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
