"""Containers that another container's launcher enters by ssh, with the allocation's own keys.

Every container derives the same keys from DET_PEER_KEY, so that none travels, and all die with the allocation. Keys
that somebody put into the run directory before are taken as they are.
"""

import hashlib
import hmac
import os
import shutil
import sys
import time
from typing import Dict, Mapping, Sequence

from determined import _paths
from determined._info import task_environment
from determined._task_session import task_session
from determined.launch import _ed25519
from determined.launch._workers import replace_process

DEFAULT_PORT = 12350
PEER_TIMEOUT_S = 600.0


def port() -> int:
    return int(os.environ.get("DTRAIN_SSH_PORT") or DEFAULT_PORT)


def key_file(name: str) -> str:
    return os.path.join(_paths.run_dir(), "ssh", name)


def make_keys() -> bool:
    """Write the key pair and the settings of sshd, unless they are there; False without a DET_PEER_KEY."""
    if os.path.exists(key_file("id_rsa")):
        return True
    peer_key = (task_environment() or os.environ).get("DET_PEER_KEY")
    if not peer_key:
        return False
    seed = hmac.new(peer_key.encode(), b"ssh between containers", hashlib.sha256).digest()
    os.makedirs(key_file(""), mode=0o700, exist_ok=True)
    public, private = _ed25519.public_line(seed), _ed25519.private_file(seed)
    for name, content in (
        ("authorized_keys", public),
        ("id_rsa.pub", public),
        ("sshd_config", _sshd_config()),
        ("id_rsa", private),
    ):
        with open(os.open(key_file(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            f.write(content)
    return True


def _sshd_config() -> str:
    """Nothing but the allocation's key opens the door; it is the host's key, too."""
    return f"""HostKey {key_file("id_rsa")}
AuthorizedKeysFile {key_file("authorized_keys")}
PidFile none
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
PrintMotd no
"""


def serve_as_daemon() -> int:
    """Let the chief in, and do not keep the allocation alive once it is done."""
    sshd = shutil.which("sshd") or "/usr/sbin/sshd"
    if not os.path.exists(sshd) or not make_keys():
        print(
            "this launcher reaches other containers by ssh, which needs an sshd in the image and keys, of "
            f"DET_PEER_KEY or in {key_file('')}: install openssh-server, or use "
            "determined.launch.torch_distributed, which needs neither",
            file=sys.stderr,
        )
        return 80
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)  # sshd refuses to start as root without it
    mark_as_daemon()
    return replace_process(
        [sshd, "-p", str(port()), "-f", key_file("sshd_config"), "-D", "-e"], os.environ
    )


def mark_as_daemon() -> None:
    allocation_id, resources_id = os.environ["DET_ALLOCATION_ID"], os.environ["DET_RESOURCES_ID"]
    path = f"/api/v1/allocations/{allocation_id}/resources/{resources_id}/daemon"
    task_session().post(path, {"allocationId": allocation_id, "resourcesId": resources_id})


def use_keys(env: Mapping[str, str]) -> Dict[str, str]:
    """For launchers that call ssh through pdsh."""
    make_keys()
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
