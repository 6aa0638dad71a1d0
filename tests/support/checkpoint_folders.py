"""Folders as trials save them: a large file, small ones, an empty one, an empty folder, odd names."""

import os
from pathlib import Path

from determined.common.storage import StorageManager


def checkpoint_in(folder: Path, weights: int) -> Path:
    """Create a checkpoint with a large file of this size."""
    source = folder / "source"
    (source / "code" / "empty").mkdir(parents=True)
    (source / "weights.bin").write_bytes(os.urandom(weights))
    (source / "code" / "model.py").write_text("x = 1")
    (source / "ünï code+&=.txt").write_text("odd name")
    (source / "nothing").write_bytes(b"")
    return source


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def save(manager: StorageManager, source: Path, storage_id: str = "uuid-1") -> None:
    manager.write_checksums(storage_id, manager.upload(source, storage_id))
