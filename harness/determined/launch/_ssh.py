"""Containers that another container's launcher enters by ssh, with the allocation's own keys."""

import os
import shutil
import sys
import time
from typing import Dict, Mapping, Sequence

from determined import _paths
from determined._task_session import task_session
from determined.launch._workers import replace_process

DEFAULT_PORT = 12350
PEER_TIMEOUT_S = 600.0


def port() -> int:
    return int(os.environ.get("DTRAIN_SSH_PORT") or DEFAULT_PORT)


def key_file(name: str) -> str:
    return os.path.join(_paths.run_dir(), "ssh", name)


def serve_as_daemon() -> int:
    """Let the chief in, and do not keep the allocation alive once it is done."""
    sshd = shutil.which("sshd") or "/usr/sbin/sshd"
    if not os.path.exists(sshd) or not os.path.exists(key_file("sshd_config")):
        print(
            "this launcher reaches other containers by ssh, which needs an sshd in the image and "
            f"the allocation's keys in {key_file('')}: install openssh-server, or use "
            "determined.launch.torch_distributed, which needs neither",
            file=sys.stderr,
        )
        return 80
    mark_as_daemon()
    return replace_process(
        [sshd, "-p", str(port()), "-f", key_file("sshd_config"), "-D"], os.environ
    )


def mark_as_daemon() -> None:
    allocation_id, resources_id = os.environ["DET_ALLOCATION_ID"], os.environ["DET_RESOURCES_ID"]
    path = f"/api/v1/allocations/{allocation_id}/resources/{resources_id}/daemon"
    task_session().post(path, {"allocationId": allocation_id, "resourcesId": resources_id})


def use_keys(env: Mapping[str, str]) -> Dict[str, str]:
    """For launchers that call ssh through pdsh."""
    options = f"-p {port()} -i {key_file('id_rsa')} -o StrictHostKeyChecking=no"
    return {**env, "PDSH_SSH_ARGS": f"{options} %h", "PDSH_RCMD_TYPE": "ssh"}


def wait_for_peers(addresses: Sequence[str]) -> None:
    """The chief's launcher does not wait: every sshd must answer before it starts."""
    import socket

    deadline = time.monotonic() + PEER_TIMEOUT_S
    for address in addresses:
        while True:
            try:
                socket.create_connection((address, port()), timeout=5).close()
                break
            except OSError as e:
                if time.monotonic() > deadline:
                    raise SystemExit(f"no sshd answers at {address}:{port()}: {e}") from e
                time.sleep(0.5)
