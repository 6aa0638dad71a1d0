"""`cluster-up` refuses data of another version before it changes a file in the data directory."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.migrate import HEAD, migrate
from det_controlplane.entry.local import commands, data_version
from det_controlplane.entry.local.files import LocalFiles
from sqlalchemy import text

OLD_CLUSTER = {"cluster_name": "determined", "host": "127.0.0.1", "port": 8080, "agents": []}
OLD_SECRETS = {"bootstrap_token": "token", "objects_secret": "secret"}
DRAFT = "CREATE TABLE schema_migrations (version integer)"


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    """The data directory of a cluster from an older version."""
    files = LocalFiles(tmp_path / "data")
    files.make()
    (files.folder / "cluster.json").write_text(json.dumps(OLD_CLUSTER))
    (files.folder / "secrets.json").write_text(json.dumps(OLD_SECRETS))
    return files


def make_database(files: LocalFiles, *statements: str, upgraded: bool = False) -> None:
    with EmbeddedPostgres(files.database) as server:
        if upgraded:
            migrate(server.url())
        database = Database(server.url())
        with database.begin() as tx:
            for statement in statements:
                tx.execute(text(statement))
        database.dispose()


def written(files: LocalFiles) -> dict[str, bytes]:
    """Return the files of the cluster, without the files of the PostgreSQL server and the lock."""
    return {
        str(path.relative_to(files.folder)): path.read_bytes()
        for path in files.folder.rglob("*")
        if path.is_file() and "database" not in path.parts and path.suffix != ".lock"
    }


def up(files: LocalFiles, monkeypatch: pytest.MonkeyPatch, **flags: Any) -> int:
    """Run `cluster-up`, which must fail before it starts its daemon."""

    def start(*_: object, **__: object) -> None:
        raise AssertionError("the daemon was started")

    monkeypatch.setattr(commands, "_start_daemon", start)
    return commands.main("cluster-up", Namespace(data_dir=str(files.folder), agents=0, **flags))


def refusal(
    files: LocalFiles, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    before = written(files)
    assert up(files, monkeypatch) == 1
    assert written(files) == before
    message = capsys.readouterr().err
    assert f"cannot use the data in {files.folder}: " in message
    assert "Nothing was changed there" in message
    return message


def test_rejects_a_database_of_a_draft(
    files: LocalFiles, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_database(files, DRAFT)
    assert "a draft of 0.1.0, which cannot be upgraded" in refusal(files, monkeypatch, capsys)


@pytest.mark.parametrize("stored_revision", ["", "9999"])
def test_rejects_a_database_of_a_newer_version(
    files: LocalFiles,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stored_revision: str,
) -> None:
    make_database(files, "UPDATE alembic_version SET version_num = '9999'", upgraded=True)
    if stored_revision:
        files.write_schema(stored_revision)
    message = refusal(files, monkeypatch, capsys)
    assert (
        f"the database is at revision 9999, this program knows {HEAD}: install a newer" in message
    )


@pytest.mark.parametrize(
    ("name", "content"), [("cluster.json", OLD_CLUSTER), ("secrets.json", OLD_SECRETS)]
)
@pytest.mark.parametrize("flags", [{}, {"delete_db": True}])
def test_rejects_files_of_a_newer_version(
    files: LocalFiles,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: dict[str, Any],
    flags: dict[str, bool],
) -> None:
    (files.folder / name).write_text(json.dumps({**content, "colour": "red"}))
    (files.database / "kept").mkdir(parents=True)
    before = written(files)
    assert up(files, monkeypatch, **flags) == 1
    assert f"a newer version wrote {name}, with 'colour'" in capsys.readouterr().err
    assert written(files) == before
    assert (files.database / "kept").exists()


def test_rejects_a_database_of_another_postgresql_version(
    files: LocalFiles, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_database(files)
    (EmbeddedPostgres(files.database).data / "PG_VERSION").write_text("9.4\n")
    assert "PostgreSQL did not start" in refusal(files, monkeypatch, capsys)


def test_accepts_a_database_that_can_be_upgraded(files: LocalFiles) -> None:
    make_database(files, upgraded=True)
    data_version.require_known_files(files)
    data_version.require_known_schema(files)
    assert files.supervisor_pid() is None
    assert not EmbeddedPostgres(files.database).data.joinpath("postmaster.pid").exists()


def test_server_is_not_started_if_this_version_ran_last(
    files: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_database(files, upgraded=True)
    files.write_schema(HEAD)
    monkeypatch.setattr(EmbeddedPostgres, "start", lambda self: pytest.fail("it was started"))
    data_version.require_known_schema(files)
