"""Folders in memory for large temporary files of tests, because disks are slow and wear out."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.processes import alive

MEMORY = Path("/dev/shm")
_PREFIX = "det-test-"


def folder_in_memory(room_bytes: int) -> "Path | None":
    """Return where files lie in memory if that has room, else None: let tempfile choose."""
    roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > room_bytes
    return MEMORY if roomy else None


@contextlib.contextmanager
def temporary_folder(room_bytes: int) -> Iterator[Path]:
    """Create a folder, in memory if there is room. First remove folders of killed processes."""
    parent = folder_in_memory(room_bytes)
    if parent is not None:
        _sweep(parent)
    with tempfile.TemporaryDirectory(
        prefix=f"{_PREFIX}{os.getpid()}-", dir=parent, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def new_folder(parent: Path) -> Path:
    """Make a folder that later runs remove once this process has ended."""
    _sweep(parent)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
