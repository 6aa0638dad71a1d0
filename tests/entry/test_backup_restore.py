"""Back up a cluster that is down, and restore it. tests/e2e/test_backup.py backs up a running cluster."""

import json
import os
import shutil
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from alembic import command
from det_controlplane.adapters import postgres_dump
from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.db.engine.connections import plain_engine
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.migrate import alembic_config, migrate
from det_controlplane.db.engine.revisions import BASELINE, HEAD
from det_controlplane.entry.local.backup_archive import Manifest, read_manifest
from det_controlplane.entry.local.commands import main
from det_controlplane.entry.local.files import Desired, LocalAgent, LocalFiles
from sqlalchemy import text

from tests.support.api import api_over, create, report_checkpoint
from tests.support.played_agent import PlayedAgent

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Original:
    """A stopped cluster with one checkpoint in its data directory and one outside of it."""

    files: LocalFiles
    outside: Path
    inner: str
    outer: str

    def path(self, uuid: str) -> Path:
        base = self.files.checkpoints if uuid == self.inner else self.outside / "team"
        return base / uuid / "state"

    def back_up(self, path: Path, **flags: bool) -> Manifest:
        arguments = Namespace(file=str(path), data_dir=str(self.files.folder), **flags)
        assert main("backup", arguments) == 0
        return read_manifest(path)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    folder = tmp_path_factory.mktemp("original")
    files, outside = LocalFiles(folder / "data"), folder / "outside"
    files.make()
    agents = (LocalAgent("ours-agent-0"), LocalAgent("big"))
    cert = str(files.tls_cert)
    files.write_desired(Desired("ours", "127.0.0.1", 8080, agents=agents, tls_cert=cert))
    inner = {"type": "shared_fs", "host_path": str(files.checkpoints)}
    outer = {"type": "shared_fs", "host_path": str(outside), "storage_path": str(outside / "team")}
    config = {"cluster_name": "ours", "checkpoint_storage": inner}
    files.cluster_config.write_text(json.dumps(config))
    files.secrets()
    with EmbeddedPostgres(files.database, throwaway=True) as server:
        migrate(server.url())
        checkpoints = [
            _checkpoint(server.url(), folder / n, s) for n, s in [("1", inner), ("2", outer)]
        ]
        _delete_one(server.url(), folder / "3", inner)
    one = Original(files, outside, *checkpoints)
    for uuid in checkpoints:
        one.path(uuid).parent.mkdir(parents=True)
        one.path(uuid).write_text(uuid)
    return one


def _checkpoint(url: str, folder: Path, storage: dict[str, str]) -> str:
    """Make an experiment with a checkpoint in a storage, and a checkpoint in S3."""
    folder.mkdir()
    database = Database(url)
    try:
        with api_over(database, folder) as api:
            user = api.signed_in("determined")
            s3 = {"type": "s3", "bucket": "far", "prefix": "away"}
            report_checkpoint(user, create(user, checkpoint_storage=s3))
            return report_checkpoint(user, create(user, checkpoint_storage=storage))
    finally:
        database.dispose()


def _delete_one(url: str, folder: Path, storage: dict[str, str]) -> None:
    """Queue a deletion that has removed the files of a checkpoint but not reported it; let two agents join."""
    folder.mkdir()
    database = Database(url)
    try:
        with api_over(database, folder) as api:
            user = api.signed_in("determined")
            checkpoint = report_checkpoint(user, create(user, checkpoint_storage=storage))
            user.done("DELETE", "/api/v1/checkpoints", {"checkpointUuids": [checkpoint]})
            for name in ("ours-agent-0", "far"):
                PlayedAgent(api, name).join()
    finally:
        database.dispose()


@pytest.fixture
def target(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path / "restored")


def restore(path: Path, target: LocalFiles, **flags: str) -> int:
    return main("restore", Namespace(file=str(path), data_dir=str(target.folder), **flags))


def rows(files: LocalFiles, sql: str) -> list[Any]:
    with EmbeddedPostgres(files.database, throwaway=True) as server:
        engine = plain_engine(server.url())
        try:
            with engine.connect() as connection:
                return [tuple(row) for row in connection.execute(text(sql))]
        finally:
            engine.dispose()


def test_restored_cluster_has_its_own_files_and_names(
    original: Original, target: LocalFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = original.back_up(tmp_path / "b")
    assert manifest.rows["checkpoints"] == 5
    assert manifest.missing == (), "a queued task in the backup deletes these files"
    assert "2 checkpoints are not in the backup, because they are in s3://far/away" in (
        capsys.readouterr().err
    )
    assert restore(tmp_path / "b", target, cluster_name="copy") == 0
    assert f"cluster-up --data-dir {target.folder}" in capsys.readouterr().err

    assert (target.checkpoints / original.inner / "state").read_text() == original.inner
    path = target.folder / "storages" / "1"
    assert (path / "team" / original.outer / "state").read_text() == original.outer
    configs = rows(
        target,
        "SELECT config FROM storages UNION ALL SELECT cast(config->'checkpoint_storage' AS jsonb) FROM experiments",
    )
    places = {(c["type"], c.get("host_path"), c.get("storage_path")) for (c,) in configs}
    assert places == {
        ("s3", None, None),
        ("shared_fs", str(target.checkpoints), None),
        ("shared_fs", str(path), str(path / "team")),
    }

    states = rows(target, "SELECT id, cast(state AS text) FROM agents ORDER BY id")
    assert states == [("far", "JOINED"), ("ours-agent-0", "LOST")]

    desired = target.desired()
    assert desired.cluster_name == "copy"
    assert [agent.name for agent in desired.agents] == ["copy-agent-0", "big"]
    assert desired.tls_cert == str(target.tls_cert)
    config = json.loads(target.cluster_config.read_text())
    assert config["cluster_name"] == "copy"
    assert config["checkpoint_storage"]["host_path"] == str(target.checkpoints)
    assert target.secrets() == original.files.secrets()
    assert target.folder.stat().st_mode & 0o777 == 0o700
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "restored"]


def test_backup_without_checkpoints_keeps_paths_outside_of_the_data_directory(
    original: Original, target: LocalFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = original.back_up(tmp_path / "b", without_checkpoints=True)
    assert not [m for m in manifest.members if m.name.startswith("checkpoints/")]
    assert restore(tmp_path / "b", target) == 0
    errors = capsys.readouterr().err
    assert f"copy {original.files.checkpoints} of the original to {target.checkpoints}" in errors
    paths = rows(
        target, "SELECT config->>'host_path' FROM storages WHERE config->>'type' = 'shared_fs'"
    )
    assert {path for (path,) in paths} == {str(target.checkpoints), str(original.outside)}


@pytest.fixture
def lost_file(original: Original) -> Iterator[Path]:
    """A missing file of a checkpoint that the database refers to."""
    path = original.path(original.outer)
    path.unlink()
    yield path
    path.write_text(original.outer)


def test_backup_and_restore_report_missing_files(
    original: Original, lost_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = original.back_up(tmp_path / "b", force=True)
    assert manifest.missing == (str(lost_file),)
    errors = capsys.readouterr().err
    assert f"1 files that the database names were not there:\n  {lost_file}" in errors


def test_backup_reports_insufficient_disk_space(
    original: Original,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    arguments = Namespace(file=str(tmp_path / "b"), data_dir=str(original.files.folder))
    assert main("backup", arguments) == 1
    assert f"and {tmp_path} has 1000 B free: give a FILE on another disk" in (
        capsys.readouterr().err
    )
    assert list(tmp_path.iterdir()) == []


def test_failed_dump_leaves_no_backup(
    original: Original,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_dump, "_DUMP", ("--format=nonsense",))
    arguments = Namespace(file=str(tmp_path / "b"), data_dir=str(original.files.folder))
    assert main("backup", arguments) == 1
    assert (
        'no backup was written: pg_dump failed: pg_dump: error: invalid output format "nonsense"'
        in (capsys.readouterr().err)
    )
    assert list(tmp_path.iterdir()) == []
    assert original.files.supervisor_pid() is None


def test_restore_upgrades_an_earlier_schema(target: LocalFiles, tmp_path: Path) -> None:
    earlier = LocalFiles(tmp_path / "earlier")
    earlier.make()
    earlier.write_desired(Desired("ours", "127.0.0.1", 8080))
    earlier.cluster_config.write_text("{}")
    earlier.secrets()
    with EmbeddedPostgres(earlier.database, throwaway=True) as server:
        engine = plain_engine(server.url())
        with engine.begin() as connection:
            command.upgrade(alembic_config(connection), BASELINE)
        engine.dispose()
    path = tmp_path / "b"
    assert main("backup", Namespace(file=str(path), data_dir=str(earlier.folder))) == 0
    manifest = read_manifest(path)
    assert manifest.schema_revision == BASELINE
    assert restore(path, target) == 0
    assert rows(target, "SELECT version_num, cluster_id::text FROM alembic_version, cluster") == [
        (HEAD, manifest.cluster_id)
    ]


def test_cluster_does_not_start_in_the_directory_of_a_running_restore(
    original: Original,
    target: LocalFiles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    backup = tmp_path / "backup"
    original.back_up(backup, without_checkpoints=True)
    load, codes = postgres_dump.restore, list[int]()

    def start_during_the_restore(*arguments: Any) -> None:
        (making,) = tmp_path.glob(".restored.*.restoring")
        codes.append(main("cluster-up", Namespace(data_dir=str(making))))
        load(*arguments)

    monkeypatch.setattr(postgres_dump, "restore", start_during_the_restore)
    assert restore(backup, target) == 0
    assert codes == [5]
    sentence = (
        f"process {os.getpid()} restores a backup into this directory: wait until it has ended"
    )
    assert f"{sentence}, then use --data-dir {target.folder}\n" in capsys.readouterr().err
    assert target.supervisor_pid() is None


@pytest.mark.parametrize("action", ["cluster-up", "agent-up"])
def test_cluster_does_not_start_in_the_directory_of_a_killed_restore(
    target: LocalFiles, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    files = LocalFiles(target.beside())
    files.make()
    assert main(action, Namespace(data_dir=str(files.folder))) == 5
    assert f"{files.folder} is left over from a restore that was cut off" in capsys.readouterr().err
