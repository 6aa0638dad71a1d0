"""The directory of an export: its manifest, and the journal of its finished parts."""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from det_cli.errors import CommandError

VERSION = 1
_MANIFEST, _JOURNAL = "manifest.json", "parts.jsonl"


@dataclass(frozen=True)
class Manifest:
    """The first file of an export. `counts` has the rows of each table after the last part."""

    format: str
    cluster_id: str
    selection: str
    complete: bool = False
    counts: Mapping[str, int] | None = None
    version: int = VERSION


@dataclass(frozen=True)
class Part:
    """Files that are complete: their experiments, and the rows of each table."""

    experiments: tuple[int, ...]
    counts: Mapping[str, int]


class Folder:
    """An export in a directory. A part counts only after its line in the journal is written."""

    def __init__(self, path: Path, manifest: Manifest, parts: Sequence[Part]) -> None:
        self.path = path
        self.manifest = manifest
        self.parts = list(parts)

    def add(self, part: Part) -> None:
        with (self.path / _JOURNAL).open("a") as file:
            file.write(json.dumps(asdict(part)) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.parts.append(part)

    def finish(self) -> None:
        self.manifest = replace(self.manifest, complete=True, counts=self.counts())
        _write(self.path, self.manifest)

    def counts(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for part in self.parts:
            total.update(part.counts)
        return dict(total)

    def experiments(self) -> list[int]:
        return [experiment for part in self.parts for experiment in part.experiments]


def start(path: Path, manifest: Manifest) -> Folder:
    """Begin an export in a new or empty directory, or continue the same export. Refuse other directories."""
    if path.exists() and not path.is_dir():
        raise CommandError(f"'{path}' is not a directory")
    if not (path / _MANIFEST).exists():
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise CommandError(
                f"'{path}' has files that are not of an export", "give a new or an empty directory"
            )
        _write(path, manifest)
    folder = load(path)
    if replace(folder.manifest, complete=False, counts=None) != manifest:
        raise CommandError(
            f"'{path}' has another export ({_describe(folder.manifest)})",
            "give a new or an empty directory",
        )
    return folder


def load(path: Path) -> Folder:
    """Read an export. Drop the last line of the journal if an interruption left it incomplete."""
    file = path / _MANIFEST
    if not file.is_file():
        raise CommandError(f"'{path}' has no export: it has no {_MANIFEST}")
    try:
        fields = json.loads(file.read_text())
        version = fields["version"]
        manifest = Manifest(**fields) if version == VERSION else None
    except (ValueError, TypeError, KeyError) as e:
        raise CommandError(f"'{file}' is not the manifest of an export") from e
    if manifest is None:
        raise CommandError(
            f"'{path}' has an export of version {version}; this is version {VERSION}"
        )
    return Folder(path, manifest, _parts(path / _JOURNAL))


def _parts(journal: Path) -> list[Part]:
    text = journal.read_text() if journal.exists() else ""
    lines, newline, torn = text.rpartition("\n")
    if torn:
        journal.write_text(lines + newline)
    objects: list[dict[str, Any]] = [json.loads(line) for line in lines.splitlines()]
    return [Part(tuple(part["experiments"]), part["counts"]) for part in objects]


def _write(path: Path, manifest: Manifest) -> None:
    """Replace the manifest as a whole."""
    temporary = path / f".{_MANIFEST}"
    temporary.write_text(json.dumps(asdict(manifest), indent=2) + "\n")
    temporary.replace(path / _MANIFEST)


def _describe(manifest: Manifest) -> str:
    return f"{manifest.format} {manifest.selection}, cluster {manifest.cluster_id}"
