"""The engines that implement Docker's API, and their differences."""

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
        """Return whether the engine creates missing host folders of mounts."""
        return self.name == PODMAN

    @property
    def asks_registries(self) -> bool:
        """Return whether the engine can ask a registry about an image without pulling it."""
        return self.name == DOCKER

    def older_than(self, oldest: tuple[int, ...]) -> bool:
        numbers = self.version.split("+")[0].split("-")[0].split(".")[: len(oldest)]
        return tuple(int(number) for number in numbers if number.isdigit()) < oldest


def engine_of(client: Any) -> Engine:
    """Return the engine of a client. Raises DockerException or OSError."""
    version = client.version()
    components = {str(part.get("Name")) for part in version.get("Components") or []}
    return Engine(PODMAN if "Podman Engine" in components else DOCKER, str(version["Version"]))


PROBE_IMAGE = "determined-agent-probe"
PROBE_TIMEOUT_S = 60
CONNECT_TIMEOUT_S = 3.0
HOST_GATEWAY_NAME = "host.docker.internal"
# Podman's error message if its init program is missing.
NO_INIT = "container-init binary not found"
_SYSTEM_FOLDERS = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/nix")
# Runs in a container. It tries all addresses at once and prints the first one in order that answers as expected.
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
    """The engine runs containers but cannot mount this machine's files, for example Docker Desktop."""

    reason: str


ProbeResult = Reached | Unreachable | Unproven


def probe(
    client: Any, network: str, addresses: Sequence[str], gateway: GatewayAddress
) -> ProbeResult:
    """Test from a container on the network. Raises DockerException or OSError if no container can start."""
    question = json.dumps(
        [list(addresses), gateway.port, PING_PATH, gateway.ping_token, CONNECT_TIMEOUT_S]
    )
    python = os.path.realpath(sys.executable)
    options: dict[str, Any] = {
        "command": [python, "-I", "-S", "-c", _SCRIPT, question],
        "entrypoint": [],
        "mounts": [Mount(path, path, "bind", read_only=True) for path in _mounted_folders()],
        "network_mode": network,
        "read_only": True,
        # Tasks use this too. Podman's init program is in a separate package, which may be missing.
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


def _mounted_folders() -> list[str]:
    """Return the folders that this Python needs, without folders inside of others."""
    folders = [*_SYSTEM_FOLDERS, os.path.realpath(sys.base_prefix)]
    existing = [path for path in folders if os.path.isdir(path)]
    return [
        p for p in dict.fromkeys(existing) if not any(Path(q) in Path(p).parents for q in existing)
    ]


def _ensure_image(client: Any) -> None:
    try:
        client.images.get(PROBE_IMAGE)
    except ImageNotFound:
        empty = io.BytesIO()
        tarfile.open(fileobj=empty, mode="w").close()
        client.api.import_image_from_data(empty.getvalue(), repository=PROBE_IMAGE, tag="latest")


def _read(output: str, code: int, errors: str) -> ProbeResult:
    try:
        answer = json.loads(output)
    except ValueError:
        return Unproven(f"the probe ended with exit code {code}: {errors.strip()[-300:]}")
    return Reached(answer["reached"]) if answer["reached"] else Unreachable(answer["errors"])


def _is_about_files(error: APIError) -> bool:
    """Return whether the engine has other files than this machine or another processor architecture."""
    words = str(error.explanation or error).lower()
    if NO_INIT in words:
        return False
    missing = ("bind source path does not exist", "mounts denied", "no such file or directory")
    return any(text in words for text in (*missing, "exec format error", "permission denied"))
