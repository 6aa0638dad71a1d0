"""Interpreters that task images carry, where this machine has them."""

import os
import subprocess
from pathlib import Path

VERSIONS = ("3.9", "3.10", "3.12", "3.13")


def interpreter(version: str) -> "str | None":
    """One that really runs: version managers leave names behind that do not."""
    command = [f"python{version}", "-c", "import sys; print(sys.executable)"]
    env = {**os.environ, "PYENV_VERSION": os.environ.get("PYENV_VERSION", "")}
    for candidate in (command, ["pyenv", "exec", *command]):
        try:
            done = subprocess.run(candidate, capture_output=True, text=True, check=True, env=env)
            return done.stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            continue
    return next(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")), None)
