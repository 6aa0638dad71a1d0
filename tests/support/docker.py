"""A Docker engine for the tests: the one that answers, or one of their own on a fresh machine."""

import os
import shutil
import socket
import subprocess
import time
from typing import Any

import docker
from docker.errors import DockerException

from tests.support import debian, own_engine, skips
from tests.support.cache import only_one
from tests.support.leftovers import without_mark

DEFAULT_ENGINE = "unix:///var/run/docker.sock"
READY_S = 120.0
# Engines outlive the process that started them: collecting their Popen objects would warn in any later test.
_engines: "list[subprocess.Popen[bytes]]" = []
_PACKAGES = ("docker.io", "cgroupfs-mount", "iptables")


def docker_engine() -> Any:
    """Return a client of a running engine, which DOCKER_HOST then names for child processes; skip where none can be."""
    is_own = os.environ.get("DOCKER_HOST") == own_engine.url()
    client = (None if is_own else _answering(None)) or _our_own()
    if client is None:
        skips.skip(*_no_engine())
    return client


def _no_engine() -> tuple[str, str]:
    """Return why no container can run here, and what to do."""
    if os.geteuid() != 0:
        missing = "no Docker engine answers this user, who may not start one"
        return missing, "start Docker, and let this user use it"
    log = own_engine.folder() / "dockerd.log"
    return "no Docker engine answers, and none could be started", f"install Docker; see {log}"


def _our_own() -> Any | None:
    url = own_engine.url()
    with only_one(own_engine.START_LOCK):
        client = _answering(url) or (_start() if os.geteuid() == 0 else None)
        if client is not None:
            own_engine.use()
    if client is not None:
        os.environ["DOCKER_HOST"] = url
    return client


def _answering(url: str | None) -> Any | None:
    if not _listens(url or os.environ.get("DOCKER_HOST") or DEFAULT_ENGINE):
        return None
    client = None
    try:
        # A version of its own choice would be asked for at once; like this, a dead engine fails in `ping`.
        client = docker.DockerClient(base_url=url or os.environ.get("DOCKER_HOST"), version="1.41")
        client.ping()
    except (DockerException, OSError):
        if client is not None:
            client.close()
        return None
    return client


def _listens(url: str) -> bool:
    """Ask whether something listens: the docker library leaks the socket of a connection that was refused."""
    if not url.startswith("unix://"):
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(url.removeprefix("unix://")) == 0


def _start() -> Any | None:
    """Start an engine that outlives this process, because other workers and test runs use it, too."""
    if not _installed():
        return None
    if not os.path.ismount("/sys/fs/cgroup") and shutil.which("cgroupfs-mount"):
        subprocess.run(["cgroupfs-mount"], check=False)
    for iptables in ("true", "false"):
        engine = _spawn(iptables)
        _engines.append(engine)
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and engine.poll() is None:
            client = _answering(own_engine.url())
            if client is not None:
                own_engine.note_start()
                return client
            time.sleep(0.1)
        if engine.poll() is None:
            engine.kill()
            engine.wait()
    return None


def _spawn(iptables: str) -> "subprocess.Popen[bytes]":
    folder = own_engine.folder()
    with open(folder / "dockerd.log", "ab") as log:
        return subprocess.Popen(
            [
                "dockerd",
                f"--data-root={folder}/data",
                f"--exec-root={folder}/exec",
                f"--pidfile={own_engine.pid_file()}",
                f"--host={own_engine.url()}",
                f"--iptables={iptables}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env=without_mark(),
        )


def _installed() -> bool:
    if shutil.which("dockerd") is None:
        debian.install(*_PACKAGES)
    return shutil.which("dockerd") is not None
