"""Terraform itself, where it is not installed: its release, held against the sums that its publisher lists."""

import contextlib
import fcntl
import hashlib
import io
import os
import platform
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

from det_cli.errors import CommandError
from det_cli.render import say

VERSION = "1.11.4"
# A mirror with the same layout may be named instead.
RELEASES_VARIABLE = "DET_TERRAFORM_RELEASES"
RELEASES = "https://releases.hashicorp.com/terraform"
_PROCESSORS = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_TIMEOUT_S = 60.0


def fetched() -> str:
    """Return the program of a release, which is fetched once a user. Raises CommandError."""
    program = _home() / VERSION / "terraform"
    if not program.is_file():
        say(f"Terraform is not installed here: fetching {VERSION} to {program.parent}")
        _store(_fetch(), program)
    return str(program)


def plugins() -> dict[str, str]:
    """Return the variables by which providers, hundreds of megabytes, are kept for the next command.

    A folder that cannot be made keeps nothing. What an operator chose goes before these."""
    kept = _home() / "plugins"
    try:
        kept.mkdir(parents=True, exist_ok=True)
    except OSError:
        return {}
    # Terraform would fetch again what no lock file names; ours goes with the working folder.
    return {
        "TF_PLUGIN_CACHE_DIR": str(kept),
        "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE": "1",
    }


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold off the other commands of this machine: Terraform fills such a folder safely for one at a time only."""
    try:
        lock = (_home() / "plugins.lock").open("w")
    except OSError:  # nor are providers kept there
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _home() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "determined-serverless/terraform"


def _fetch() -> bytes:
    """Return the release for this machine. Raises CommandError."""
    processor = _PROCESSORS.get(platform.machine().lower())
    if processor is None or sys.platform not in ("linux", "darwin"):
        raise _missing(f"there is no release that is known for {sys.platform} {platform.machine()}")
    folder = f"{os.environ.get(RELEASES_VARIABLE, RELEASES)}/{VERSION}"
    name = f"terraform_{VERSION}_{sys.platform}_{processor}.zip"
    listed = _read(f"{folder}/terraform_{VERSION}_SHA256SUMS").decode("ascii", "replace")
    sums = {file: digest for digest, file in (line.split() for line in listed.splitlines() if line)}
    content = _read(f"{folder}/{name}")
    if hashlib.sha256(content).hexdigest() != sums.get(name):
        raise _missing(f"{folder}/{name} is not what its publisher lists")
    return content


def _read(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            return bytes(answer.read())
    except OSError as e:
        raise _missing(f"{url} cannot be fetched: {getattr(e, 'reason', e)}") from e


def _store(release: bytes, program: Path) -> None:
    """Write the program where it is found again: whole, or not at all."""
    program.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(release)) as archive:
        unfinished = program.with_name(f"terraform.{os.getpid()}")
        unfinished.write_bytes(archive.read("terraform"))
    unfinished.chmod(0o755)
    unfinished.replace(program)


def _missing(why: str) -> CommandError:
    return CommandError(
        f"Terraform is not installed, and {why}",
        "install 1.10 or newer from developer.hashicorp.com/terraform/install, or name its program by DET_TERRAFORM",
    )
