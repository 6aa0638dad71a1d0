"""Migrations land once, in order, whole, and never change afterwards."""

import threading
from pathlib import Path

import pg8000.native
import pytest
from det_controlplane.db.engine import connect_options
from det_controlplane.db.migrate import (
    _EARLIER_DRAFTS,
    MigrationError,
    migrate,
    read_migrations,
)


def write(folder: Path, **files: str) -> Path:
    for name, sql in files.items():
        (folder / f"{name.removeprefix('m')}.sql").write_text(sql)
    return folder


def query(url: str, sql: str) -> list[list[object]]:
    connection = pg8000.native.Connection(**connect_options(url))
    try:
        return [list(row) for row in connection.run(sql) or []]
    finally:
        connection.close()


def test_files_are_applied_in_order_and_only_once(empty_database_url: str, tmp_path: Path) -> None:
    write(
        tmp_path,
        m0001_make="create table t (x text check (x like '%:a%')); insert into t values (':a');",
        m0002_fill="insert into t select ':ab' from t;",
    )
    assert migrate(empty_database_url, tmp_path) == ("0001_make.sql", "0002_fill.sql")
    assert migrate(empty_database_url, tmp_path) == ()
    assert query(empty_database_url, "select count(*) from t") == [[2]]


def test_a_file_that_fails_leaves_nothing_behind_and_is_named(
    empty_database_url: str, tmp_path: Path
) -> None:
    write(tmp_path, m0001_good="create table a ();", m0002_bad="create table b (); select nope;")
    with pytest.raises(MigrationError, match=r'0002_bad\.sql: column "nope" does not exist'):
        migrate(empty_database_url, tmp_path)
    assert query(empty_database_url, "select to_regclass('a')::text, to_regclass('b')::text") == [
        ["a", None]
    ]


def test_an_edited_landed_file_is_refused(empty_database_url: str, tmp_path: Path) -> None:
    migrate(empty_database_url, write(tmp_path, m0001_make="create table a ();"))
    write(tmp_path, m0001_make="create table a (x int);", m0002_more="create table b ();")
    with pytest.raises(MigrationError, match=r"0001_make\.sql was edited after it landed"):
        migrate(empty_database_url, tmp_path)


def test_a_database_from_a_newer_program_is_refused(
    empty_database_url: str, tmp_path: Path
) -> None:
    migrate(empty_database_url, write(tmp_path, m0001_a="select 1;", m0002_b="select 1;"))
    (tmp_path / "0002_b.sql").unlink()
    with pytest.raises(MigrationError, match="at version 2, this program knows 1"):
        migrate(empty_database_url, tmp_path)


def test_many_processes_may_migrate_at_once(empty_database_url: str, tmp_path: Path) -> None:
    write(tmp_path, m0001_make="create table t (x int);", m0002_fill="insert into t values (1);")
    applied: list[str] = []
    threads = [
        threading.Thread(target=lambda: applied.extend(migrate(empty_database_url, tmp_path)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(applied) == ["0001_make.sql", "0002_fill.sql"]
    assert query(empty_database_url, "select count(*) from t") == [[1]]


def test_gaps_and_odd_names_are_refused(tmp_path: Path) -> None:
    write(tmp_path, m0001_a="", m0003_c="")
    with pytest.raises(MigrationError, match="numbered 1 to 2"):
        read_migrations(tmp_path)
    write(tmp_path, mfirst="")
    with pytest.raises(MigrationError, match=r"first\.sql: call it like"):
        read_migrations(tmp_path)


def test_a_database_that_took_an_earlier_draft_is_kept(empty_database_url: str) -> None:
    migrate(empty_database_url)
    connection = pg8000.native.Connection(**connect_options(empty_database_url))
    try:
        for version, checksum in _EARLIER_DRAFTS.items():
            update = "UPDATE schema_migrations SET checksum = :checksum WHERE version = :version"
            connection.run(update, checksum=checksum, version=version)
    finally:
        connection.close()
    assert migrate(empty_database_url) == ()
