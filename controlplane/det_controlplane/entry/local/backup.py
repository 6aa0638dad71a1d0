"""`det deploy local backup`: write a cluster's database, secrets and files to one file while the cluster runs.

The command blocks deletions of stored files, takes a snapshot of the database, and then copies the files. Stored files
never change, so every file in the snapshot still exists (docs/adr/0040-backups-in-one-file.md)."""

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from det_controlplane.adapters import postgres_dump
from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres, PostgresFailed
from det_controlplane.adapters.postgres_binaries import NoPostgres
from det_controlplane.core.config.text import load_yaml
from det_controlplane.core.interface import PRODUCT_VERSION
from det_controlplane.core.lifecycle.checkpoint import CheckpointState
from det_controlplane.db.cluster import backups
from det_controlplane.db.cluster.backups import Contents, HeldDeletions
from det_controlplane.db.engine.errors import BadUrl, DatabaseDown, QueryFailed
from det_controlplane.db.engine.migrate import MigrationError
from det_controlplane.db.engine.revisions import HEAD
from det_controlplane.entry.local import backup_archive, backup_storages
from det_controlplane.entry.local.backup_archive import (
    DUMP,
    FORMAT,
    OBJECTS,
    SETTINGS,
    ArchiveWriter,
    Manifest,
    Member,
)
from det_controlplane.entry.local.backup_storages import Source, Storages
from det_controlplane.entry.local.errors import CONFLICT, NOT_FOUND, LocalError
from det_controlplane.entry.local.files import BACKUP, LocalFiles

Say = Callable[[str], None]
_NAMED = 5
FAILURES = (
    backups.BackupRunning,
    DatabaseDown,
    QueryFailed,
    BadUrl,
    MigrationError,
    postgres_dump.DumpFailed,
    PostgresFailed,
    NoPostgres,
)


def write(
    files: LocalFiles, target: Path, say: Say, *, with_checkpoints: bool, force: bool
) -> None:
    """Write a backup of a cluster, which may run, to a file."""
    target = target.expanduser().absolute()
    _require_place(files, target, force)
    try:
        with (
            opened_database(files) as url,
            backups.holding_deletions(url) as deletions,
            backup_archive.writing(target) as archive,
        ):
            manifest = _write(files, archive, url, deletions, with_checkpoints)
    except FAILURES as e:
        raise LocalError(f"no backup was written: {e}") from e
    except OSError as e:
        raise LocalError(f"no backup was written: {_cause(e)}") from e
    _say_contents(target, manifest, say)


def _write(
    files: LocalFiles,
    archive: ArchiveWriter,
    url: str,
    deletions: HeldDeletions,
    with_checkpoints: bool,
) -> Manifest:
    with backups.snapshot(deletions.engine) as (snapshot_id, contents):
        _require_known(contents)
        storages = _storages(files, contents)
        sources = _sources(files, contents, storages if with_checkpoints else None)
        _require_room(archive.folder, contents, sources)
        variables = backups.libpq_variables(url)
        with postgres_dump.dumping(variables, backups.SCHEMA, snapshot_id) as pieces:
            archive.add_pieces(DUMP, pieces)
    for source in sources:
        _add(archive, source)
    missing = list(_missing_objects(files, archive, contents))
    if with_checkpoints:
        missing += _missing_checkpoints(archive, contents, storages)
    deletions.check()

    def manifest_of(members: tuple[Member, ...]) -> Manifest:
        return Manifest(
            format=FORMAT,
            product_version=PRODUCT_VERSION,
            schema_revision=contents.revision,
            postgres_version=max(contents.server_version, postgres_dump.version()),
            cluster_id=contents.cluster_id,
            cluster_name=files.desired().cluster_name,
            folder=str(files.folder),
            taken_at=contents.taken_at.isoformat(timespec="seconds"),
            table_bytes=contents.table_bytes,
            rows=contents.rows,
            with_checkpoints=with_checkpoints,
            directories=storages.directories,
            elsewhere=backup_storages.elsewhere(contents.checkpoints, storages),
            missing=tuple(sorted(missing)),
            members=members,
        )

    return archive.complete(manifest_of)


@contextmanager
def opened_database(files: LocalFiles) -> Iterator[str]:
    """Yield the URL of the cluster's database. A cluster that is down is locked, and its server started, meanwhile."""
    desired = files.desired()
    if desired.master_url:
        raise LocalError(
            f"{files.folder} has only agents of the cluster at {desired.master_url}: back that one up where it runs"
        )
    if desired.database_url:
        yield desired.database_url
        return
    server = EmbeddedPostgres(files.database)
    if not server.is_initialised():
        raise LocalError(
            f"the cluster in {files.folder} has no database: there is nothing to back up"
        )
    if files.supervisor_pid() is None:
        holder = files.hold(BACKUP)
        if holder is None:
            raise LocalError("the cluster is being started or backed up: try again", CONFLICT)
        with holder, server:
            yield server.url()
        return
    if not server.find_running():
        raise LocalError(
            f"the cluster's PostgreSQL is not ready: try again; {server.log} says what it does"
        )
    yield server.url()


def _require_place(files: LocalFiles, target: Path, force: bool) -> None:
    if target.is_dir():
        raise LocalError(f"{target} is a directory: give the name of a file in it", CONFLICT)
    if not target.parent.is_dir():
        raise LocalError(f"there is no directory {target.parent}: make it first", NOT_FOUND)
    if target.resolve().is_relative_to(files.folder.resolve()):
        raise LocalError(
            f"{target} is in the cluster's data directory, and would be lost with it: give another place",
            CONFLICT,
        )
    if target.exists() and not force:
        raise LocalError(f"{target} exists: give another FILE, or --force to replace it", CONFLICT)


def _require_known(contents: Contents) -> None:
    if contents.revision > HEAD:
        raise LocalError(
            f"the database is at revision {contents.revision} and this program knows {HEAD}:"
            " write the backup with the version that runs the cluster"
        )


def _require_room(folder: Path, contents: Contents, sources: list[Source]) -> None:
    needed_bytes = contents.table_bytes + sum(source.size for source in sources)
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise LocalError(
            f"the backup needs up to {size(needed_bytes)} and {folder} has {size(free)} free: give a FILE on another"
            " disk, or leave the checkpoints out by --without-checkpoints"
        )


def _storages(files: LocalFiles, contents: Contents) -> Storages:
    config: Any = load_yaml(files.cluster_config.read_text("utf-8"), what="cluster configuration")
    own = config.get("checkpoint_storage") or {}
    return backup_storages.storages_of((own, *contents.storages), files.folder)


def _sources(files: LocalFiles, contents: Contents, storages: Storages | None) -> list[Source]:
    """Return all files for the archive. The list is made after the snapshot, so it has all files of the snapshot."""
    sources = [
        Source(f"{SETTINGS}/{path.relative_to(files.folder)}", path, path.stat().st_size)
        for path in files.settings()
        if path.exists()
    ]
    sources += backup_storages.walk(files.objects, OBJECTS)
    if storages is not None:
        active = (c.uuid for c in contents.checkpoints if c.state is CheckpointState.ACTIVE)
        sources += storages.sources(frozenset(active))
    return sources


def _add(archive: ArchiveWriter, source: Source) -> None:
    """Add a file. Skip a deleted file: the check for missing files reports it if the database refers to it."""
    if source.is_folder:
        archive.add_folder(source.name)
        return
    try:
        archive.add_file(source.name, source.path)
    except FileNotFoundError:
        return


def _missing_objects(
    files: LocalFiles, archive: ArchiveWriter, contents: Contents
) -> Iterator[str]:
    for key in contents.objects:
        if f"{OBJECTS}/{key}" not in archive:
            yield str(files.objects / key)


def _missing_checkpoints(
    archive: ArchiveWriter, contents: Contents, storages: Storages
) -> Iterator[str]:
    """Yield files of complete checkpoints that are not in the archive.

    Files that a task was deleting at the snapshot are not expected: the task runs again in a restored cluster."""
    for checkpoint in contents.checkpoints:
        member = storages.member_of(checkpoint.storage)
        is_expected = checkpoint.state is not CheckpointState.ACTIVE
        if member is None or not is_expected or checkpoint.uuid in contents.doomed:
            continue
        for path in checkpoint.paths:
            name = f"{member}/{checkpoint.uuid}/{path}"
            if name not in archive:
                yield storages.path_of(name)


def _cause(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "the disk is full: give a FILE on another disk, or leave the checkpoints out by --without-checkpoints"
    if isinstance(error, PermissionError):
        return (
            f"{error.filename} cannot be read: run the command as root, as containers write files as root"
            " unless the user is linked to an account of this machine"
        )
    return str(error)


def _say_contents(target: Path, manifest: Manifest, say: Say) -> None:
    rows, files = sum(manifest.rows.values()), len(manifest.members)
    say(
        f"{target}: {size(target.stat().st_size)}, {rows} rows of the database and {files} files,"
        f" as of {manifest.taken_at}"
    )
    say("it holds the cluster's secrets: keep it where only administrators read")
    say_omissions(manifest, say)


def say_omissions(manifest: Manifest, say: Say) -> None:
    """Print the files that the database refers to and the backup does not contain."""
    if not manifest.with_checkpoints:
        say("note: checkpoints and TensorBoard files were left out (--without-checkpoints)")
    for place, count in manifest.elsewhere.items():
        say(
            f"note: {count} checkpoints are not in the backup, because they are in {place}: keep that"
        )
    if manifest.missing:
        say(f"warning: {len(manifest.missing)} files that the database names were not there:")
        for path in manifest.missing[:_NAMED]:
            say(f"  {path}")
        if len(manifest.missing) > _NAMED:
            say(
                f"  and {len(manifest.missing) - _NAMED} more, which manifest.json in the backup lists"
            )


def size(count: int) -> str:
    """Return a number of bytes with its unit."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    value, unit = float(count), 0
    while value >= 1024 and unit < len(units) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {units[unit]}" if unit else f"{count} B"
