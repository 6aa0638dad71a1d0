"""Files of MLflow's file store: names, metadata and times."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import yaml

_LONGEST_NAME = 240  # bytes
_NOT_IN_NAMES = re.compile(r"[^/\w.\- ]")


class FileNames:
    """Names of files for names of metrics or parameters. Different names never share a file."""

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def of(self, name: str) -> str:
        if name not in self._paths:
            path = next(path for path in _candidates(name) if self._is_free(path))
            self._files.add(path)
            self._folders.update(_parents(path))
            self._paths[name] = path
        return self._paths[name]

    def _is_free(self, path: str) -> bool:
        used = path in self._files or path in self._folders
        return not used and self._files.isdisjoint(_parents(path))


def _candidates(name: str) -> Iterator[str]:
    """Yield possible names of a file: the name itself, without folders, and with a number."""
    allowed = _NOT_IN_NAMES.sub("_", name)
    parts = allowed.split("/")
    if all(part.strip(". ") and len(part.encode()) <= _LONGEST_NAME for part in parts):
        yield allowed
    flat = "_".join(parts).encode()[:_LONGEST_NAME].decode(errors="ignore")
    flat = flat if flat.strip(". ") else "_"
    yield flat
    number = 2
    while True:
        yield f"{flat}_{number}"
        number += 1


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]


def run_id(cluster_id: UUID, trial_id: int) -> str:
    """Return the id of a trial's run, which is the same in every export."""
    return uuid5(cluster_id, f"trial {trial_id}").hex


def write_folder(
    folder: Path, meta: dict[str, Any], files: Mapping[str, Mapping[str, str]]
) -> None:
    folder.mkdir()
    (folder / "meta.yaml").write_text(yaml.safe_dump(meta, allow_unicode=True), encoding="utf-8")
    for part, texts in files.items():
        (folder / part).mkdir()
        for name, text in texts.items():
            path = folder / part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
