"""Download of Terraform if it is not installed, verified with the publisher's checksums."""

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
# The variable with a mirror of the releases in the same layout.
RELEASES_VARIABLE = "DET_TERRAFORM_RELEASES"
RELEASES = "https://releases.hashicorp.com/terraform"
_PROCESSORS = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_TIMEOUT_S = 60.0


def ensure() -> str:
    """Return the path of Terraform. Download it once per user. Raises CommandError."""
    program = _home() / VERSION / "terraform"
    if not program.is_file():
        say(f"Terraform is not installed: downloading {VERSION} to {program.parent}")
        _store(_download(), program)
    return str(program)


def plugins() -> dict[str, str]:
    """Return the environment variables for a provider cache, because providers have hundreds of megabytes.

    Returns {} if the folder cannot be created. The operator's own variables take precedence."""
    cache = _home() / "plugins"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return {}
    # Without a lock file, Terraform would not use the cache. The lock file is deleted with the working folder.
    return {
        "TF_PLUGIN_CACHE_DIR": str(cache),
        "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE": "1",
    }


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Lock the provider cache, because only one Terraform process at a time can write to it safely."""
    try:
        lock = (_home() / "plugins.lock").open("w")
    except OSError:  # the provider cache needs a writable folder
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _home() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "determined-serverless/terraform"


def _download() -> bytes:
    """Return the verified release archive for this machine. Raises CommandError."""
    processor = _PROCESSORS.get(platform.machine().lower())
    if processor is None or sys.platform not in ("linux", "darwin"):
        raise _missing_error(f"there is no release for {sys.platform} {platform.machine()}")
    folder = f"{os.environ.get(RELEASES_VARIABLE, RELEASES)}/{VERSION}"
    name = f"terraform_{VERSION}_{sys.platform}_{processor}.zip"
    checksums = _read(f"{folder}/terraform_{VERSION}_SHA256SUMS").decode("ascii", "replace")
    sums = {
        file: digest for digest, file in (line.split() for line in checksums.splitlines() if line)
    }
    content = _read(f"{folder}/{name}")
    if hashlib.sha256(content).hexdigest() != sums.get(name):
        raise _missing_error(f"the checksum of {folder}/{name} is wrong")
    return content


def _read(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
            return bytes(response.read())
    except OSError as e:
        raise _missing_error(f"{url} cannot be downloaded: {getattr(e, 'reason', e)}") from e


def _store(release: bytes, program: Path) -> None:
    """Store the program atomically."""
    program.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(release)) as archive:
        unfinished = program.with_name(f"terraform.{os.getpid()}")
        unfinished.write_bytes(archive.read("terraform"))
    unfinished.chmod(0o755)
    unfinished.replace(program)


def _missing_error(reason: str) -> CommandError:
    return CommandError(
        f"Terraform is not installed, and {reason}",
        "install 1.10 or newer from developer.hashicorp.com/terraform/install, or set DET_TERRAFORM to its path",
    )
