"""Measure the first `import torch` on a machine without the image: `python bench/pulls.py [NAME …]`, as root.

A registry and an engine of their own have network namespaces, and a link of 100 MB/s between them. The kernel here has
no qdisc for delays, so the registry delays each response by 30 ms. `BENCH_IMAGE` is a folder that keeps the image.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from det_agent.docker_pull import ensure_image
from det_controlplane.core.agent_protocol import ContainerSpec

from bench import pull_image
from tests.support.agents import make_spec
from tests.support.processes import eventually

ROOT = Path(__file__).parents[1]
FILLER_GB = 3.5
LINK_MB_S, DELAY_S, SLOW_CONNECTION_MB_S = 100, 0.03, 25
_REGISTRY, ENGINE = "bench-registry", "bench-engine"
IMAGE = "10.77.0.1:5000/team/torch:latest"
IMPORT = ["python3", "-c", "import torch; print(torch.ones(1).item())"]


@dataclass(frozen=True)
class Way:
    """One way of pulling."""

    name: str
    floor_s: float | None = None
    unpacker: str = ""  # the program that the engine finds as `unpigz`
    over_ranges: bool = False
    connection_mb_s: float = 0.0  # limit of each connection; 0: none


WAYS = (
    Way("plain"),
    Way("unpigz", unpacker="unpigz"),
    Way("igzip", unpacker="igzip"),
    Way("ranges_igzip", 40, unpacker="igzip", over_ranges=True),
    Way("slow_connection_plain", connection_mb_s=SLOW_CONNECTION_MB_S),
    Way(
        "slow_connection_ranges_igzip", 40, unpacker="igzip", over_ranges=True,
        connection_mb_s=SLOW_CONNECTION_MB_S,
    ),
)  # fmt: skip


@contextmanager
def link() -> Iterator[None]:
    """Create two network namespaces with a shaped link."""
    commands = (
        f"ip netns add {_REGISTRY}",
        f"ip netns add {ENGINE}",
        f"ip -n {_REGISTRY} link add r0 type veth peer name e0 netns {ENGINE}",
        f"ip -n {_REGISTRY} addr add 10.77.0.1/24 dev r0",
        f"ip -n {ENGINE} addr add 10.77.0.2/24 dev e0",
        *(f"ip -n {space} link set {device} up" for space, device in (
            (_REGISTRY, "lo"), (_REGISTRY, "r0"), (ENGINE, "lo"), (ENGINE, "e0"))),
        f"ip netns exec {_REGISTRY} tc qdisc add dev r0 root tbf rate {8 * LINK_MB_S}mbit burst 1mb latency 50ms",
    )  # fmt: skip
    try:
        for command in commands:
            subprocess.run(command.split(), check=True)
        yield
    finally:
        for space in (_REGISTRY, ENGINE):
            subprocess.run(["ip", "netns", "del", space], check=False)


def _inside(space: str) -> tuple[str, ...]:
    # `ip netns exec` would hide the control groups from the engine.
    return ("nsenter", f"--net=/run/netns/{space}")


@contextmanager
def program(space: str, *command: str, log: Path, env: Mapping[str, str] = {}) -> Iterator[None]:
    """Run a program in a network namespace. It ends with this context."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*_inside(space), *command],
            stdout=output, stderr=output, env={**os.environ, **env}, cwd=ROOT,
        )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def registry(
    image: Path, folder: Path, connection_mb_s: float = 0.0
) -> AbstractContextManager[None]:
    """Serve an image at the other end of the link. It logs to the folder."""
    command = [sys.executable, "-m", "bench.pull_registry", str(image), "10.77.0.1", "5000"]
    command += [str(DELAY_S), str(connection_mb_s)]
    return program(_REGISTRY, *command, log=folder / "registry.log")


@contextmanager
def engine(folder: Path, unpacker: str) -> Iterator[Any]:
    """Start an engine without images, with an `unpigz` of our choice or without one."""
    tools = folder / "bin"
    tools.mkdir()
    for directory in ("/usr/sbin", "/sbin", "/usr/bin", "/bin"):
        for path in Path(directory).iterdir():
            if path.name != "unpigz" and not (tools / path.name).exists():
                (tools / path.name).symlink_to(path)
    if unpacker:
        (tools / "unpigz").write_text(f'#!/bin/sh\nexec /usr/bin/{unpacker} -d -c "$@"\n')
        (tools / "unpigz").chmod(0o755)
    (folder / "daemon.json").write_text(json.dumps({"insecure-registries": ["10.77.0.1:5000"]}))
    url = f"unix://{folder}/engine.sock"
    options = [
        f"--config-file={folder}/daemon.json", f"--data-root={folder}/data", f"--exec-root={folder}/exec",
        f"--pidfile={folder}/pid", f"--host={url}", "--bridge=none", "--iptables=false",
    ]  # fmt: skip
    with program(
        ENGINE, "/usr/sbin/dockerd", *options, log=folder / "engine.log", env={"PATH": str(tools)}
    ):
        assert eventually(lambda: answers(url), 60), (folder / "engine.log").read_text()
        client = docker.DockerClient(url, timeout=600)
        yield client
        client.close()


def answers(url: str) -> bool:
    try:
        docker.DockerClient(url).close()
        return True
    except (docker.errors.DockerException, OSError):
        return False


def measure(way: Way, image: Path) -> dict[str, float]:
    """Return the seconds of the pull, of its unpacking after the last download, and until torch was imported."""
    with tempfile.TemporaryDirectory(prefix="bench-pulls-") as name, ExitStack() as stack:
        folder = Path(name)
        stack.enter_context(link())
        stack.enter_context(registry(image, folder, way.connection_mb_s))
        client = stack.enter_context(engine(folder, way.unpacker))
        begun = time.monotonic()
        output = subprocess.run(
            [*_inside(ENGINE), sys.executable, "-m", "bench.pulls", "pull",
             f"unix://{folder}/engine.sock", "ranges" if way.over_ranges else "engine"],
            check=True, capture_output=True, text=True, cwd=ROOT,
        ).stdout  # fmt: skip
        pulled_s = time.monotonic() - begun
        client.containers.run(IMAGE, IMPORT, network_mode="none", remove=True)
        first_import_s = time.monotonic() - begun
        return {
            "first_import_s": first_import_s,
            "pull_s": pulled_s,
            "download_s": float(output.split()[-1]),
        }


def pull(url: str, way: str) -> None:
    """Pull with this process, and print the seconds until all layers were downloaded."""
    client = docker.DockerClient(url, timeout=600)
    begun = downloaded = time.monotonic()
    api = client.api
    original = api.pull

    def watched(*args: Any, **options: Any) -> Iterator[Any]:
        nonlocal downloaded
        for event in original(*args, **options):
            if event.get("status") in ("Downloading", "Verifying Checksum", "Download complete"):
                downloaded = time.monotonic()
            yield event

    if way == "ranges":
        api.pull = watched
        spec = make_spec("true", image=IMAGE)
        ensure_image(api, ContainerSpec.from_json(spec), lambda text: print(text), lambda: False)
    else:
        for event in watched(IMAGE, stream=True, decode=True):
            assert "error" not in event, event
    print(round(downloaded - begun, 2))


def main() -> None:
    names = sys.argv[1:]
    folder = Path(os.environ.get("BENCH_IMAGE") or tempfile.mkdtemp(prefix="bench-image-"))
    try:
        manifest = pull_image.make(folder, FILLER_GB)
        size_gb = sum(layer["size"] for layer in manifest["layers"]) / 1e9
        for way in WAYS:
            if names and way.name not in names:
                continue
            seconds = measure(way, folder)
            for figure, value in seconds.items():
                line = {"name": f"pull_{way.name}_{figure}", "value": round(value, 1), "unit": "s"}
                floor = way.floor_s if figure == "first_import_s" else None
                more = {"floor": floor, "better": "lower", "peer": None}
                print(json.dumps({**line, **more, "compressed_gb": round(size_gb, 2)}), flush=True)
    finally:
        if "BENCH_IMAGE" not in os.environ:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["pull"]:
        pull(*sys.argv[2:])
    else:
        main()
