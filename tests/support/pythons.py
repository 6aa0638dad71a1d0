"""Interpreters of task images: those of this machine, or downloads of uv."""

import functools
import os
import subprocess
import sys
from pathlib import Path

from tests.support import skips
from tests.support.cache import cache_folder, only_one

VERSIONS = ("3.9", "3.10", "3.12", "3.13")
_UV = Path(sys.executable).parent / "uv"
_DOWNLOAD_S = 120.0


def require(version: str) -> str:
    """Return the path of an interpreter; skip the test where none is here and none can be downloaded."""
    path = interpreter(version) or _downloaded(version)
    if path is None:
        skips.skip(f"{skips.INTERPRETER}: Python {version}", f"uv python install {version}")
    return path


def interpreter(version: str) -> "str | None":
    """Return an interpreter that really runs: version managers leave names behind that do not."""
    command = [f"python{version}", "-c", "import sys; print(sys.executable)"]
    env = {**os.environ, "PYENV_VERSION": os.environ.get("PYENV_VERSION", "")}
    for candidate in (command, ["pyenv", "exec", *command]):
        try:
            result = subprocess.run(candidate, capture_output=True, text=True, check=True, env=env)
            return result.stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            continue
    by_managers = (
        Path.home().glob(f".pyenv/versions/{version}.*/bin/python"),
        Path.home().glob(f".local/share/uv/python/cpython-{version}.*/bin/python3"),
        (cache_folder() / "pythons").glob(f"cpython-{version}.*/bin/python3"),
    )
    return next((str(path) for paths in by_managers for path in sorted(paths)), None)


@functools.cache
def _downloaded(version: str) -> "str | None":
    """Return an interpreter that uv installed beside the other things that test runs share."""
    folder = cache_folder() / "pythons"
    command = [str(_UV), "python", "install", version, "--install-dir", str(folder), "--no-bin"]
    # A machine that reaches no server of interpreters learns so at once.
    env = {**os.environ, "UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "10"}
    with only_one("pythons"):
        try:
            subprocess.run(command, capture_output=True, check=True, env=env, timeout=_DOWNLOAD_S)
        except (OSError, subprocess.SubprocessError):
            return None
    return next((str(p) for p in sorted(folder.glob(f"cpython-{version}.*/bin/python3"))), None)
