"""Keys and settings for ssh between the containers of an allocation, in its run directory.

Every container derives the same keys from DET_PEER_KEY. They are never transferred, and are deleted with the
allocation. Keys that already exist in the run directory are used instead.
"""

import hashlib
import hmac
import os
import pwd
import shutil
from typing import Optional

from determined import _paths
from determined._info import task_environment
from determined.launch import _ed25519
from determined.launch._peers import Peers

DEFAULT_PORT = 12350


def port() -> int:
    return int(os.environ.get("DTRAIN_SSH_PORT") or DEFAULT_PORT)


def path(name: str) -> str:
    return os.path.join(_paths.run_dir(), "ssh", name)


def write(name: str, content: str, mode: int = 0o600) -> str:
    where = path(name)
    os.makedirs(os.path.dirname(where), mode=0o700, exist_ok=True)
    with open(os.open(where, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as f:
        f.write(content)
    return where


def container_name(rank: int) -> str:
    """Return a container's host name for ssh. Addresses are not unique if several agents share a machine."""
    return f"container-{rank}"


def make_keys() -> bool:
    """Write the key pair and sshd's settings unless they exist. Return False without a DET_PEER_KEY."""
    if not os.path.exists(path("id_rsa")):
        peer_key = (task_environment() or os.environ).get("DET_PEER_KEY")
        if not peer_key:
            return False
        seed = hmac.new(peer_key.encode(), b"ssh between containers", hashlib.sha256).digest()
        public = _ed25519.public_line(seed)
        write("authorized_keys", public)
        write("id_rsa.pub", public)
        write("known_hosts", f"* {public}")
        write("id_rsa", _ed25519.private_file(seed))
    if not os.path.exists(path("sshd_config")):
        write("sshd_config", _sshd_config())
    return True


def _sshd_config() -> str:
    """Return an sshd configuration that accepts only the allocation's key. The same key is the host key."""
    return f"""HostKey {path("id_rsa")}
AuthorizedKeysFile {path("authorized_keys")}
ForceCommand exec /bin/sh {path("enter")}
PidFile none
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 1000
UsePAM {"yes" if _is_password_locked() else "no"}
StrictModes no
PrintMotd no
"""


def _is_password_locked() -> bool:
    """Return whether the account's password is locked. Without PAM, sshd rejects such accounts (Red Hat images)."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
        with open("/etc/shadow") as f:
            return any(line.startswith(f"{name}:!") for line in f)
    except (OSError, KeyError):
        return False


def ssh_config(peers: Peers) -> str:
    """Return an ssh configuration for connecting to containers by name or address, without further options."""
    hosts = [
        f"Host {container_name(rank)}\nHostName {address}\n"
        for rank, address in enumerate(peers.addresses)
    ]
    sshd = installed_sshd()
    if sshd is not None:
        # The chief has no listening sshd. A launcher that checks its own host gets a session of a new sshd.
        hosts[0] += f"ProxyCommand {sshd} -i -f {path('sshd_config')}\n"
    return (
        "".join(hosts)
        + f"""Host *
Port {port()}
IdentityFile {path("id_rsa")}
IdentitiesOnly yes
UserKnownHostsFile {path("known_hosts")}
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking {"yes" if os.path.exists(path("known_hosts")) else "no"}
BatchMode yes
LogLevel ERROR
"""
    )


def installed_sshd() -> Optional[str]:
    """Return sshd's absolute path, which sshd requires. As root, create the directory that it needs."""
    sshd = shutil.which("sshd") or "/usr/sbin/sshd"
    if not os.path.exists(sshd):
        return None
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    return sshd
