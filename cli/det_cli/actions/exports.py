"""`det export`: copy experiments and models out of the cluster."""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from det_cli.connection import V1, connect
from det_cli.errors import FAILED, OK, CommandError
from det_cli.render import print_rows, say

if TYPE_CHECKING:
    from determined.common.http import Session

    from det_cli.exporting.folder import Folder, Part
    from det_cli.exporting.rows import Row
    from det_cli.exporting.source import Selection

_PROGRESS_S = 10.0


class Writer(Protocol):
    """Writes one format. Each part has whole experiments, or all models."""

    def table(self, row: "Row") -> str:
        """Return the table that counts a row."""
        ...

    def begin(self, finished_parts: int) -> None:
        """Remove unfinished files of an interruption."""
        ...

    def write(self, row: "Row") -> None: ...

    def is_full(self) -> bool: ...

    def finish(self, number: int, *, models: bool = False) -> dict[str, int]: ...

    def stored(self) -> dict[str, int]: ...


def parquet(args: argparse.Namespace) -> int:
    return _export(args, "parquet")


def mlflow(args: argparse.Namespace) -> int:
    return _export(args, "mlflow")


def _export(args: argparse.Namespace, format: str) -> int:
    from det_cli.exporting import folder as folders
    from det_cli.exporting import source

    words = source.words_of(args)
    _load(format)  # before the first request, so that a missing library is reported at once
    session = connect(args)
    selection = source.select(session, words)
    manifest = folders.Manifest(format, _cluster_id(session), words)
    source.require_all(session, selection)
    folder = folders.start(Path(args.directory), manifest)
    if folder.manifest.complete:
        say(f"'{args.directory}' has this export already; `det export verify` compares it")
    else:
        if folder.parts:
            say(f"continuing after {len(folder.experiments())} experiments")
        _write(session, selection, folder)
    print(f"{args.directory}: {_in_words(folder.counts())}")
    return OK


def _write(session: "Session", selection: "Selection", folder: "Folder") -> None:
    from det_cli.exporting import source
    from det_cli.exporting.folder import Part

    writer = _load(folder.manifest.format)(folder)
    writer.begin(len(folder.parts))
    finished, open_ids, said_at = folder.experiments(), list[int](), time.monotonic()

    def close(*, models: bool = False) -> None:
        counts = writer.finish(len(folder.parts) + 1, models=models)
        folder.add(Part(tuple(open_ids), counts))
        open_ids.clear()

    for experiment in source.experiments(session, selection, after=max(finished, default=0)):
        for row in source.rows_of(session, experiment):
            writer.write(row)
        open_ids.append(experiment["id"])
        if writer.is_full():
            close()
        if time.monotonic() - said_at > _PROGRESS_S:
            said_at = time.monotonic()
            say(f"read {len(folder.experiments()) + len(open_ids)} experiments")
    if open_ids:
        close()
    if all(part.experiments for part in folder.parts):  # the part with the models is missing
        for row in source.models(session, selection, folder.experiments()):
            writer.write(row)
        close(models=True)
    folder.finish()


def verify(args: argparse.Namespace) -> int:
    from det_cli.exporting import folder as folders
    from det_cli.exporting import source

    folder = folders.load(Path(args.directory))
    manifest = folder.manifest
    if not manifest.complete:
        raise CommandError(
            f"the export in '{args.directory}' is not complete", "start the same command again"
        )
    writer = _load(manifest.format)(folder)
    session = connect(args)
    if _cluster_id(session) != manifest.cluster_id:
        raise CommandError(f"'{args.directory}' is of another cluster ({manifest.cluster_id})")
    selection = source.select(session, manifest.selection)
    parts, newer = _in_cluster(session, selection, folder, writer)
    exported, stored = folder.counts(), writer.stored()
    present = sum(parts, Counter[str]())
    tables = [*exported, *(table for table in present if table not in exported)]
    rows = [[t, exported.get(t, 0), stored.get(t), present[t]] for t in tables]
    print_rows(["Table", "Exported", "In Files", "In Cluster"], rows, as_csv=False)
    if newer:
        say(f"{newer} experiments are newer than the export")
    differences = [
        _difference(part, counts)
        for part, counts in zip(folder.parts, parts, strict=True)
        if any(part.counts.get(t, 0) != counts[t] for t in tables)
    ]
    lost = [t for t in stored if stored[t] != exported.get(t, 0)]
    for line in (*differences, *(f"{t}: files are missing or changed" for t in lost)):
        say(line)
    return FAILED if differences or lost else OK


def _in_cluster(
    session: "Session", selection: "Selection", folder: "Folder", writer: Writer
) -> "tuple[list[Counter[str]], int]":
    """Return the rows in the cluster of each part, and the number of newer experiments."""
    from det_cli.exporting import source

    part_of = {id: n for n, part in enumerate(folder.parts) for id in part.experiments}
    parts = [Counter[str]() for _ in folder.parts]
    newer = 0
    for experiment in source.experiments(session, selection):
        if experiment["id"] in part_of:
            rows = source.rows_of(session, experiment)
            parts[part_of[experiment["id"]]].update(map(writer.table, rows))
        else:
            newer += 1
    rows = source.models(session, selection, folder.experiments())
    parts[-1].update(map(writer.table, rows))
    return parts, newer


def _difference(part: "Part", counts: "Counter[str]") -> str:
    ids = part.experiments
    what = f"experiments {ids[0]} to {ids[-1]}" if len(ids) > 1 else f"experiment {ids[0]}"
    tables = sorted({*part.counts, *counts})
    changes = [
        f"{t} {part.counts.get(t, 0)}, now {counts[t]}"
        for t in tables
        if part.counts.get(t, 0) != counts[t]
    ]
    return f"{what if ids else 'models'}: {'; '.join(changes)}"


def _load(format: str) -> "Callable[[Folder], Writer]":
    if format == "parquet":
        from det_cli.exporting.parquet import ParquetWriter

        return ParquetWriter
    from det_cli.exporting.mlflow import MlflowWriter

    return MlflowWriter


def _cluster_id(session: "Session") -> str:
    return str(session.get(f"{V1}/master")["clusterId"])


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {table.replace('_', ' ')}" for table, count in counts.items())
