"""Measure the first `import torch` with Docker's containerd store: complete pulls, and lazy pulls of an eStargz image.

`python -m bench.lazy_pulls overlayfs|stargz`, as root, with these variables:

BENCH_IMAGE    a folder as of `bench.pull_image`; for stargz the layers are converted with `ctr-remote images convert`
BENCH_DOCKER   a folder with dockerd 26 or newer, containerd 1.7 and containerd-shim-runc-v2
BENCH_STARGZ   the snapshotter, containerd-stargz-grpc
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import docker

from bench import pulls
from tests.support.processes import eventually

_CONTAINERD = """version = 2
root = "{folder}/root"
state = "{folder}/run"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{folder}/containerd.sock"
[proxy_plugins.stargz]
  type = "snapshot"
  address = "{folder}/stargz.sock"
"""


def measure(driver: str, image: Path) -> dict[str, float]:
    """Return the seconds of the pull, until torch was imported, and of a second import."""
    with tempfile.TemporaryDirectory(prefix="bench-lazy-") as name, ExitStack() as stack:
        folder = Path(name)
        stack.callback(_unmount, folder)
        programs, path = os.environ["BENCH_DOCKER"], os.environ["PATH"]
        (folder / "containerd.toml").write_text(_CONTAINERD.format(folder=folder))
        settings = {
            "insecure-registries": ["10.77.0.1:5000"],
            "features": {"containerd-snapshotter": True},
            "storage-driver": driver,
        }
        (folder / "daemon.json").write_text(json.dumps(settings))
        stack.enter_context(pulls.link())
        stack.enter_context(pulls.registry(image, folder))
        url = f"unix://{folder}/docker.sock"
        plugin = ["--root", f"{folder}/stargz", "--address", f"{folder}/stargz.sock"]
        commands = {
            f"{folder}/stargz.sock": [os.environ.get("BENCH_STARGZ", "true"), *plugin],
            f"{folder}/containerd.sock": [f"{programs}/containerd", "--config", f"{folder}/containerd.toml"],
            f"{folder}/docker.sock": [
                f"{programs}/dockerd", f"--config-file={folder}/daemon.json", f"--containerd={folder}/containerd.sock",
                f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid",
                f"--host={url}", "--bridge=none", "--iptables=false",
            ],
        }  # fmt: skip
        for socket, command in commands.items():
            if driver == "stargz" or not socket.endswith("stargz.sock"):
                environment = {"PATH": f"{programs}:{path}"}
                stack.enter_context(
                    pulls.program(pulls.ENGINE, *command, log=folder / "log", env=environment)
                )
                assert eventually(Path(socket).exists, 60), (folder / "log").read_text()
        assert eventually(lambda: pulls.answers(url), 60), (folder / "log").read_text()
        return _first_import(docker.DockerClient(url, timeout=600))


def _first_import(client: docker.DockerClient) -> dict[str, float]:
    begun = time.monotonic()
    for event in client.api.pull(pulls.IMAGE, stream=True, decode=True):
        assert "error" not in event, event
    times = {"pull_s": time.monotonic() - begun}
    for figure in ("first_import_s", "second_import_s"):
        client.containers.run(pulls.IMAGE, pulls.IMPORT, network_mode="none", remove=True)
        times[figure] = time.monotonic() - begun
    client.close()
    return {**times, "second_import_s": times["second_import_s"] - times["first_import_s"]}


def _unmount(folder: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for path in reversed([mount for mount in mounts if mount.startswith(f"{folder}/")]):
        subprocess.run(["umount", "--lazy", path], check=False)


def main() -> None:
    driver = sys.argv[1]
    floor = 15 if driver == "stargz" else None
    for figure, value in measure(driver, Path(os.environ["BENCH_IMAGE"])).items():
        line = {"name": f"lazy_pull_{driver}_{figure}", "value": round(value, 1), "unit": "s"}
        more = {
            "floor": floor if figure == "first_import_s" else None,
            "better": "lower",
            "peer": None,
        }
        print(json.dumps({**line, **more}), flush=True)


if __name__ == "__main__":
    main()
