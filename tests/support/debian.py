"""Packages of Debian that tests need and new machines lack."""

import os
import shutil
import subprocess

from tests.support.cache import only_one


def install(*packages: str) -> None:
    """Install packages if allowed. Callers check for the programs they need, so a refusal is not an error here."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    # Servers that packages bring are not started.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300"]
    requested_command = [*apt, "install", "-y", "--no-install-recommends", *packages]
    with only_one("debian"):
        for command in (requested_command, [*apt, "update"], requested_command):
            result = subprocess.run(command, check=False, capture_output=True, env=environment)
            if command is requested_command and result.returncode == 0:
                return
