"""The file with the old and the new ids of an import."""

import csv
from pathlib import Path

from det_controlplane.db.importing import lookup, target
from det_controlplane.db.importing.source import Source
from det_controlplane.db.importing.target import Target


class BadFile(Exception):
    """The file cannot be written. The message has the cause."""


def require_writable(file: Path) -> None:
    """Raise BadFile if the file cannot be written, because an import takes too long to find that at its end."""
    if file.is_dir() or not file.parent.is_dir():
        raise BadFile(f"--mapping {file}: give a file in an existing directory")
    try:
        unfinished = file.with_name(file.name + ".new")
        unfinished.touch()
        unfinished.unlink()
    except OSError as e:
        raise BadFile(f"--mapping {file}: {e.strerror}") from e


def write_mapping(file: Path, source: Source, cluster: Target) -> int:
    """Write a line for each imported row. Return the number of lines."""
    unfinished, lines = file.with_name(file.name + ".new"), 0
    try:
        with cluster.read() as tx, unfinished.open("w", newline="", encoding="utf-8") as output:
            progress = target.find(tx, source.cluster_id)
            assert progress is not None
            writer = csv.writer(output, lineterminator="\n")
            writer.writerow(("kind", "old_id", "new_id"))
            for kind, old, new in lookup.mapped(tx, progress):
                writer.writerow((kind.removesuffix("s"), old, new))
                lines += 1
        unfinished.replace(file)
    except OSError as e:
        raise BadFile(
            f"--mapping {file}: {e.strerror}; the import is complete, start it again to write the file"
        ) from e
    return lines
