"""OpenSSH on this machine, and with it in the image of the tests, which is lifted from here."""

import shutil
from pathlib import Path

from tests.support import debian, skips

PACKAGES = ("openssh-server", "openssh-client")


def has_ssh() -> bool:
    return Path("/usr/sbin/sshd").exists() and shutil.which("ssh") is not None


def install_ssh() -> bool:
    """Install ssh; return whether it is here now. Its packages make the user `sshd`, whom a server of root needs."""
    if not has_ssh():
        debian.install(*PACKAGES)
    return has_ssh()


def require_ssh() -> None:
    if not install_ssh():
        skips.skip(
            "there is no sshd, and this user may not install it", "apt-get install openssh-server"
        )
