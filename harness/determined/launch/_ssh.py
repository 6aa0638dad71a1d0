"""Connections by ssh between containers: the other containers run sshd, and the chief's launcher connects to them."""

import os
import shutil
import sys
import time
from typing import Dict, Mapping, Optional, Sequence

from determined._task_session import task_session
from determined.exec import _exit_reason
from determined.launch import _place, _ssh_files
from determined.launch._peers import Peers
from determined.launch._workers import replace_process

PEER_TIMEOUT_S = 600.0
CANNOT_RUN_HERE = 80


def serve_as_daemon() -> int:
    """Run sshd for the chief. As a daemon, this container does not keep the allocation running after the chief."""
    sshd = _ssh_files.installed_sshd()
    if sshd is None or not _ssh_files.make_keys():
        return _cannot("an sshd", "openssh-server")
    _place.record(os.environ)
    mark_as_daemon()
    settings = ["-p", str(_ssh_files.port()), "-f", _ssh_files.path("sshd_config")]
    return replace_process([sshd, *settings, "-D", "-e"], os.environ)


def mark_as_daemon() -> None:
    allocation_id, resources_id = os.environ["DET_ALLOCATION_ID"], os.environ["DET_RESOURCES_ID"]
    path = f"/api/v1/allocations/{allocation_id}/resources/{resources_id}/daemon"
    task_session().post(path, {"allocationId": allocation_id, "resourcesId": resources_id})


def reach_peers(peers: Peers, env: Mapping[str, str]) -> Optional[Dict[str, str]]:
    """Wait for the other containers. Return an environment with `ssh` and `pdsh` for them, or None without ssh."""
    bin_dir = _ssh_files.path("bin")
    ssh = _installed_ssh(env, bin_dir)
    if ssh is None or not _ssh_files.make_keys():
        _cannot("an ssh client", "openssh-client")
        return None
    config = _ssh_files.write("config", _ssh_files.ssh_config(peers))
    _ssh_files.write("bin/ssh", f'#!/bin/sh\nexec {ssh} -F {config} "$@"\n', 0o700)
    pdsh = f'#!/bin/sh\nexec {sys.executable} -m determined.launch._pdsh "$@"\n'
    _ssh_files.write("bin/pdsh", pdsh, 0o700)
    wait_for_peers(peers.addresses[1:])
    return {**env, "PATH": os.pathsep.join((bin_dir, env.get("PATH") or os.defpath))}


def wait_for_peers(addresses: Sequence[str]) -> None:
    """Wait until every sshd answers, because the launchers do not wait."""
    port = _ssh_files.port()
    deadline = time.monotonic() + PEER_TIMEOUT_S
    for address in addresses:
        while True:
            try:
                _greet(address, port)
                break
            except OSError as e:
                if time.monotonic() > deadline:
                    raise SystemExit(f"no sshd answers at {address}:{port}: {e}") from e
                time.sleep(0.5)


def _greet(address: str, port: int) -> None:
    import socket

    with socket.create_connection((address, port), timeout=5) as server:
        # Send a greeting, because sshd would otherwise log that the connection was cut off.
        server.sendall(b"SSH-2.0-determined\r\n")
        if server.recv(4) != b"SSH-":
            raise ConnectionError("the program that listens there is not an sshd")


def _installed_ssh(env: Mapping[str, str], bin_dir: str) -> Optional[str]:
    """Return the image's ssh, not our script. Another launcher may have started this one with our script on PATH."""
    folders = (env.get("PATH") or os.defpath).split(os.pathsep)
    return shutil.which("ssh", path=os.pathsep.join(f for f in folders if f != bin_dir))


def _cannot(program: str, package: str) -> int:
    reason = (
        f"this launcher reaches other containers by ssh, which needs {program} in {_exit_reason.image_name()} and"
        f" keys, from DET_PEER_KEY or in {_ssh_files.path('')}: install {package}, or use "
        "determined.launch.torch_distributed, which needs neither"
    )
    _exit_reason.record(reason)
    print(reason, file=sys.stderr)
    return CANNOT_RUN_HERE
