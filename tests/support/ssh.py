"""OpenSSH on this machine, and with it in the image of the tests, which is lifted from here."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.support import skips
from tests.support.docker import only_one

PACKAGES = ("openssh-server", "openssh-client")


def has_ssh() -> bool:
    return Path("/usr/sbin/sshd").exists() and shutil.which("ssh") is not None


def install_ssh() -> bool:
    """Install ssh; return whether it is here now. Its packages make the user `sshd`, whom a server of root needs."""
    with only_one("ssh-install"):
        if not has_ssh() and os.geteuid() == 0 and shutil.which("apt-get"):
            # A server of the machine's own is nobody's wish.
            env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
            install = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
            for command in (install, ["apt-get", "update"], install):
                done = subprocess.run(command, check=False, capture_output=True, env=env)
                if has_ssh() or (command is install and done.returncode == 0):
                    break
    return has_ssh()


def require_ssh() -> None:
    if not install_ssh():
        skips.skip(
            "there is no sshd, and this user may not install it", "apt-get install openssh-server"
        )
