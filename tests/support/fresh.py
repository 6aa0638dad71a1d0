"""Empty machines for tests of first starts."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import skips
from tests.support.memory import folder_in_memory

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "fresh-machine"
TIMEOUT_S = 900.0
# Several times the size of the files of `make quickstart`.
ROOM_BYTES = 4 * 1024**3
# The exit status of the script and of tests/fresh/engines if apt-get cannot download a package.
NO_PACKAGES = 77

requires_root = pytest.mark.skipif(
    os.geteuid() != 0, reason=skips.because("only root may make namespaces", "make fresh as root")
)


def fresh_machine(
    *command: str, options: Sequence[str] = (), folder: "Path | None" = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command on an empty machine with its files in a folder, or in memory if there is room.

    Skip the test if the machine or the command needs a package that cannot be downloaded.
    """
    result = subprocess.run(
        [SCRIPT, *options, "--", *command],
        check=False,
        capture_output=True,
        text=True,
        env=_environment(folder),
        timeout=TIMEOUT_S,
    )
    if result.returncode == NO_PACKAGES:
        skips.skip(skips.PACKAGES, "make fresh, where apt-get reaches Debian")
    return result


def start_on_fresh_machine(*command: str, folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [SCRIPT, "--", *command], stdout=subprocess.PIPE, text=True, env=_environment(folder)
    )


def _environment(folder: "Path | None") -> dict[str, str]:
    folder = folder or folder_in_memory(ROOM_BYTES)
    return {**os.environ, "TMPDIR": str(folder)} if folder else dict(os.environ)
