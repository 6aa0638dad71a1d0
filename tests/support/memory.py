"""Folders in memory for what tests write much of and forget: a disk makes them wait, and is worn."""

import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")


def folder_in_memory(room_bytes: int) -> "Path | None":
    """Return where files lie in memory if that has room, else None: let tempfile choose."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > room_bytes
    return _MEMORY if roomy else None
