"""`det import`: its output, its exit codes, and dumps as sources."""

import subprocess
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest
from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.adapters.postgres_binaries import find_binaries
from det_controlplane.db.cluster.backups import libpq_variables
from det_controlplane.entry.importing import commands
from det_controlplane.services.importing import importing

from tests.support.determined_source import SourceCluster, populate
from tests.support.postgres import DatabaseServer


@pytest.fixture
def old(empty_database_url: str) -> Iterator[SourceCluster]:
    cluster = SourceCluster(empty_database_url)
    populate(cluster)
    yield cluster
    cluster.close()


@pytest.fixture
def new_url(postgres_server: DatabaseServer) -> Iterator[str]:
    with postgres_server.database() as url:
        yield url


def arguments(source: str, into: str, **flags: object) -> Namespace:
    base = {
        "source": source, "into": into, "data_dir": None, "cluster_name": "determined", "logs": "all", "id_offset": 0,
        "merge_users": False, "dry_run": False, "name": "", "mapping": None, "limit_s": 0,
    }  # fmt: skip
    return Namespace(**{**base, **flags})


def dump(old: SourceCluster, target: Path, format: str) -> None:
    program = find_binaries() / "pg_dump"
    subprocess.run(
        [program, f"--format={format}", f"--file={target}"],
        env=libpq_variables(old.url),
        check=True,
    )


def test_dry_run_counts_and_changes_nothing(
    old: SourceCluster, new_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main("determined", arguments(old.url, new_url, dry_run=True)) == 0
    text = capsys.readouterr().out
    assert "4 experiments" in text
    assert "5 reports of metrics" in text  # counted: the tables have no statistics yet
    assert "users" in text
    assert "nothing was changed" in text
    assert commands.main("verify", arguments(old.url, new_url)) == 1
    assert "was not imported here: run `det import determined` first" in capsys.readouterr().err


def test_dry_run_names_conflicts_with_the_new_cluster(
    old: SourceCluster,
    postgres_server: DatabaseServer,
    new_url: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert commands.main("determined", arguments(old.url, new_url)) == 0
    with postgres_server.empty_database() as url:
        second = SourceCluster(url, cluster_id="another")
        second.user(3, "ada")
        for flags, conflict in (
            ({}, "- the import would stop: 1 user name in both clusters (ada)"),
            ({"merge_users": True}, "- the new cluster is in use: 10,000 is added to all ids"),
        ):
            assert (
                commands.main("determined", arguments(second.url, new_url, dry_run=True, **flags))
                == 0
            )
            assert conflict in capsys.readouterr().out
        second.close()
    assert commands.main("determined", arguments(old.url, new_url, dry_run=True)) == 0
    assert "- the import of this cluster has begun already" in capsys.readouterr().out


def test_unfinished_import_cannot_be_verified(
    old: SourceCluster,
    new_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importing, "_EXPERIMENTS", 1)
    assert (
        commands.main("determined", arguments(old.url, new_url, limit_s=1e-9))
        == commands.UNFINISHED
    )
    assert commands.main("verify", arguments(old.url, new_url)) == 1
    assert "is not complete: run `det import determined` again" in capsys.readouterr().err


def test_import_and_verification(
    old: SourceCluster, new_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main("determined", arguments(old.url, new_url)) == 0
    assert (
        "imported 4 experiments, 2 trials, 5 reports of metrics and 3 lines of logs"
        in capsys.readouterr().out
    )
    assert commands.main("verify", arguments(old.url, new_url)) == 0
    assert "reports of metrics" in capsys.readouterr().out
    assert commands.main("determined", arguments(old.url, new_url)) == 0
    assert "was imported before" in capsys.readouterr().err


def test_mapping_file_has_old_and_new_ids(
    old: SourceCluster, new_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ids.csv"
    flags = {"mapping": str(file), "id_offset": 5000, "name": "lab"}
    assert commands.main("determined", arguments(old.url, new_url, **flags)) == 0
    output = capsys.readouterr().out
    assert "`det experiment describe old:lab/N`" in output
    lines = file.read_text().splitlines()
    assert lines[0] == "kind,old_id,new_id"
    assert {"experiment,10,5010", "trial,20,5020", "model,3,5003", "project,1,1", "user,1,1"} < set(
        lines
    )
    assert f"{file} has the old and the new ids of {len(lines) - 1} rows" in output
    file.unlink()
    assert commands.main("determined", arguments(old.url, new_url, **flags)) == 0
    assert file.read_text().splitlines() == lines


def test_mapping_file_is_checked_before_the_import(
    old: SourceCluster, new_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = {"mapping": str(tmp_path / "none" / "ids.csv")}
    assert commands.main("determined", arguments(old.url, new_url, **flags)) == 1
    assert "give a file in an existing directory" in capsys.readouterr().err
    assert commands.main("verify", arguments(old.url, new_url)) == 1
    assert "was not imported here" in capsys.readouterr().err


@pytest.mark.parametrize("format", ["directory", "plain"])
def test_dumps_are_sources(old: SourceCluster, new_url: str, tmp_path: Path, format: str) -> None:
    dump(old, tmp_path / "dump", format)
    assert commands.main("determined", arguments(str(tmp_path / "dump"), new_url)) == 0
    assert commands.main("verify", arguments(old.url, new_url)) == 0


def test_broken_dump_is_refused(
    new_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dump").write_text("CREATE TABLE half (")
    assert commands.main("determined", arguments(str(tmp_path / "dump"), new_url)) == 1
    assert "cannot be restored" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "flags", "message"),
    [
        (
            "/nowhere",
            {},
            "there is no dump /nowhere: give a file or directory of pg_dump, or a URL",
        ),
        (
            "postgresql://user@127.0.0.1:1/det",
            {},
            "the old cluster's database does not answer: Connection refused",
        ),
        (
            "postgresql://host/det?sslrootcert=/nowhere",
            {},
            "sslrootcert of the old cluster's database cannot be read",
        ),
        ("mysql://host/det", {}, "mysql is no database of Determined: give postgresql://"),
        ("x", {"logs": "some"}, "--logs some: give all, errors, none or since=DATE"),
        ("x", {"logs": "since=soon"}, "soon is no date"),
        (
            "OLD",
            {"name": "7"},
            "--name 7: give letters, digits, '.', '_' and '-', and not only digits",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    old: SourceCluster,
    new_url: str,
    capsys: pytest.CaptureFixture[str],
    source: str,
    flags: dict[str, object],
    message: str,
) -> None:
    source = source.replace("OLD", old.url)
    assert commands.main("determined", arguments(source, new_url, **flags)) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert "restoring" not in error


def test_port_that_is_not_a_number_is_named(
    new_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main("determined", arguments("postgresql://u:p@127.0.0.1:abc/d", new_url)) == 1
    assert "needs a number as its port" in capsys.readouterr().err


def test_refused_connection_names_what_to_check(
    tmp_path: Path, new_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with EmbeddedPostgres(tmp_path, throwaway=True) as server:
        url = f"postgresql://postgres:wrong@127.0.0.1:{server.port}/determined"
        assert commands.main("determined", arguments(url, new_url)) == 1
    error = capsys.readouterr().err
    assert "refuses the connection: password authentication failed" in error
    assert "check the user, password and database in the URL" in error


def test_local_cluster_must_exist(
    old: SourceCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = {"data_dir": str(tmp_path / "none")}
    assert commands.main("determined", arguments(old.url, "", **flags)) == 1
    assert "there is no local cluster in" in capsys.readouterr().err
