"""The engines that speak Docker's protocol, and what they do differently."""

import contextlib
import io
import json
import os
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker.errors import APIError, DockerException, ImageNotFound
from docker.types import Mount

from det_agent.gateway import PING_PATH
from det_agent.runtime import GatewayAddress

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


PROBE_IMAGE = "determined-agent-probe"
PROBE_TIMEOUT_S = 60
CONNECT_TIMEOUT_S = 3.0
HOST_GATEWAY_NAME = "host.docker.internal"
# How Podman says that it has no first process for containers.
NO_INIT = "container-init binary not found"
_SYSTEM_FOLDERS = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/nix")
# Runs in the container: asks every address at once, prints the first in order that gives the expected answer.
_SCRIPT = """
import json, socket, sys, threading
addresses, port, path, expected, timeout_s = json.loads(sys.argv[1])
found, errors = {}, {}
def ask(address):
    try:
        with socket.create_connection((address, port), timeout_s) as connection:
            connection.sendall(b"GET " + path.encode() + b" HTTP/1.0\\r\\n\\r\\n")
            answer = b""
            while block := connection.recv(65536):
                answer += block
            if expected.encode() not in answer:
                raise OSError("another program answers there")
            found[address] = connection.getpeername()[0]
    except OSError as e:
        errors[address] = str(e)
threads = [threading.Thread(target=ask, args=[a], daemon=True) for a in addresses]
for thread in threads: thread.start()
for thread in threads: thread.join(timeout_s + 2)
print(json.dumps({"reached": next((found[a] for a in addresses if a in found), ""), "errors": errors}))
"""


@dataclass(frozen=True)
class Reached:
    address: str


@dataclass(frozen=True)
class Unreachable:
    errors: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "; ".join(f"{address}: {error}" for address, error in self.errors.items())


@dataclass(frozen=True)
class Unproven:
    """The engine runs containers, but not one of this machine's files, as on Docker Desktop."""

    reason: str


ProbeResult = Reached | Unreachable | Unproven


def probe(
    client: Any, network: str, addresses: Sequence[str], gateway: GatewayAddress
) -> ProbeResult:
    """Run a container on the network. Raises DockerException or OSError when the engine cannot start any."""
    question = json.dumps(
        [list(addresses), gateway.port, PING_PATH, gateway.ping_token, CONNECT_TIMEOUT_S]
    )
    python = os.path.realpath(sys.executable)
    options: dict[str, Any] = {
        "command": [python, "-I", "-S", "-c", _SCRIPT, question],
        "entrypoint": [],
        "mounts": [Mount(path, path, "bind", read_only=True) for path in _lent_folders()],
        "network_mode": network,
        "read_only": True,
        # As tasks are started: Podman has its init in a package of its own, which may be missing.
        "init": True,
        "labels": {"ai.determined.type": "probe"},
    }
    if HOST_GATEWAY_NAME in addresses and network != "host" and sys.platform != "darwin":
        options["extra_hosts"] = {HOST_GATEWAY_NAME: "host-gateway"}
    _ensure_image(client)
    container = None
    try:
        container = client.containers.create(PROBE_IMAGE, **options)
        container.start()
        code = container.wait(timeout=PROBE_TIMEOUT_S)["StatusCode"]
        output = container.logs(stderr=False).decode("utf-8", "replace")
        return _read(output, code, container.logs(stdout=False).decode("utf-8", "replace"))
    except APIError as e:
        if _is_about_files(e):
            return Unproven(str(e.explanation or e))
        raise
    finally:
        if container is not None:
            with contextlib.suppress(DockerException, OSError):
                container.remove(force=True)


def _lent_folders() -> list[str]:
    """List the folders that this Python needs, each once."""
    wanted = [*_SYSTEM_FOLDERS, os.path.realpath(sys.base_prefix)]
    here = [path for path in wanted if os.path.isdir(path)]
    return [p for p in dict.fromkeys(here) if not any(Path(q) in Path(p).parents for q in here)]


def _ensure_image(client: Any) -> None:
    try:
        client.images.get(PROBE_IMAGE)
    except ImageNotFound:
        empty = io.BytesIO()
        tarfile.open(fileobj=empty, mode="w").close()
        client.api.import_image_from_data(empty.getvalue(), repository=PROBE_IMAGE, tag="latest")


def _read(output: str, code: int, said: str) -> ProbeResult:
    try:
        answer = json.loads(output)
    except ValueError:
        return Unproven(f"the probe ended with exit code {code}: {said.strip()[-300:]}")
    return Reached(answer["reached"]) if answer["reached"] else Unreachable(answer["errors"])


def _is_about_files(error: APIError) -> bool:
    """Return whether the engine has other files than this machine, or another kind of processor."""
    words = str(error.explanation or error).lower()
    if NO_INIT in words:
        return False
    missing = ("bind source path does not exist", "mounts denied", "no such file or directory")
    return any(text in words for text in (*missing, "exec format error", "permission denied"))
