"""The file of a backup: `restore` detects a damaged file before it writes."""

import json
import os
import random
import tarfile
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
from det_controlplane.db.engine.revisions import HEAD
from det_controlplane.entry.local import backup_archive
from det_controlplane.entry.local.backup_archive import (
    FORMAT,
    BadArchive,
    Directory,
    Manifest,
    Member,
    extract,
    read_manifest,
    verify,
    writing,
)
from det_controlplane.entry.local.commands import main
from det_controlplane.entry.local.files import Desired, LocalFiles

MANIFEST = Manifest(
    format=FORMAT,
    product_version="7.0.0",
    schema_revision=HEAD,
    postgres_version=15,
    cluster_id="an id",
    cluster_name="ours",
    folder="/old",
    taken_at="2026-11-28T06:43:20+00:00",
    table_bytes=1000,
    rows={"experiments": 1},
    with_checkpoints=True,
    directories=(Directory("/old/checkpoints", "checkpoints/0"),),
    elsewhere={},
    missing=(),
)


def write(path: Path, manifest: Manifest = MANIFEST) -> Path:
    """Write an archive with a dump, a file with a long name, an empty folder and a symbolic link."""
    source = path.parent / "source"
    source.mkdir(exist_ok=True)
    (source / "state").write_bytes(random.Random(1).randbytes(3000))
    (source / "state").chmod(0o640)
    os.utime(source / "state", (1_700_000_000, 1_700_000_000))
    (source / "link").unlink(missing_ok=True)
    (source / "link").symlink_to("state")
    with writing(path) as archive:
        archive.add_pieces("database.dump", [b"one", b"two" * 500])
        archive.add_file(f"checkpoints/0/{'deep/' * 40}state", source / "state")
        archive.add_file("checkpoints/0/link", source / "link")
        archive.add_folder("checkpoints/0/empty")
        archive.complete(lambda members: replace(manifest, members=members))
    return path


def check(path: Path) -> Manifest:
    manifest = read_manifest(path)
    verify(path, manifest)
    return manifest


def test_backup_restores_the_same_contents(tmp_path: Path) -> None:
    path = write(tmp_path / "b")
    manifest = check(path)
    assert replace(manifest, members=()) == MANIFEST
    assert Member("checkpoints/0/link", link="state") in manifest.members
    extract(path, {"checkpoints/0": tmp_path / "out"})
    state = tmp_path / "out" / ("deep/" * 40) / "state"
    assert state.read_bytes() == (tmp_path / "source/state").read_bytes()
    assert (state.stat().st_mode & 0o777, state.stat().st_mtime) == (0o640, 1_700_000_000)
    assert (tmp_path / "out/link").readlink() == Path("state")
    assert (tmp_path / "out/empty").is_dir()
    with backup_archive.opened(path, "database.dump") as dump:
        assert dump.read() == b"one" + b"two" * 500


def test_other_users_can_never_read_the_archive(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with writing(tmp_path / "b") as archive:
            (partial,) = tmp_path.iterdir()
            assert partial.stat().st_mode & 0o777 == 0o600
            archive.complete(lambda members: replace(MANIFEST, members=members))
    finally:
        os.umask(before)
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600


def test_archive_is_an_ordinary_tar_file(tmp_path: Path) -> None:
    with tarfile.open(write(tmp_path / "b")) as archive:
        assert archive.getnames()[-2:] == ["manifest.json", "manifest.sha256"]


def test_failed_backup_keeps_the_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "b"
    path.write_text("earlier")
    with pytest.raises(ZeroDivisionError), writing(path) as archive:
        archive.add_pieces("database.dump", (1 // n for n in [0]))  # type: ignore[misc]
    assert [p.name for p in tmp_path.iterdir()] == ["b"]
    assert path.read_text() == "earlier"


def offset_of(path: Path, name: str) -> int:
    with tarfile.open(path) as archive:
        return archive.getmember(name).offset_data


@pytest.mark.parametrize("name", ["database.dump", f"checkpoints/0/{'deep/' * 40}state"])
@pytest.mark.parametrize("place", [0, 700, 1502])
def test_altered_byte_is_reported_with_its_file(tmp_path: Path, name: str, place: int) -> None:
    path = write(tmp_path / "b")
    flip(path, offset_of(path, name) + place)
    with pytest.raises(BadArchive, match=f"altered or damaged: {name} differs"):
        check(path)


@pytest.mark.parametrize("name", ["manifest.json", "manifest.sha256"])
def test_altered_manifest_is_reported(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "b")
    flip(path, offset_of(path, name) + 60)
    with pytest.raises(BadArchive, match=r"altered or damaged: manifest\.json"):
        read_manifest(path)


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_truncated_file_is_detected_at_every_length(tmp_path: Path) -> None:
    path = write(tmp_path / "b")
    content = path.read_bytes()
    end = offset_of(path, "manifest.sha256") + 65
    for length in {*range(0, end, 97), *range(0, end, 512), end - 1}:
        path.write_bytes(content[:length])
        with pytest.raises(BadArchive):
            check(path)


@pytest.mark.parametrize("change", ["a member more", "a member less", "a name that leads out"])
def test_archive_members_must_match_the_manifest(tmp_path: Path, change: str) -> None:
    def spoiled(members: tuple[Member, ...]) -> Manifest:
        return replace(MANIFEST, members=members[1:] if change == "a member more" else members)

    path = tmp_path / "b"
    with writing(path) as archive:
        archive.add_pieces("../out" if change == "a name that leads out" else "x", [b"1"])
        if change == "a member less":
            archive._members["y"] = Member("y", 1, "0" * 64)
        archive.complete(spoiled)
    with pytest.raises(BadArchive):
        check(path)


def test_rejects_another_format_and_names_the_version_that_reads_it(tmp_path: Path) -> None:
    path = write(tmp_path / "b", replace(MANIFEST, format=FORMAT + 1))
    with pytest.raises(BadArchive, match=r"version 7\.0\.0; install that version"):
        read_manifest(path)


def test_rejects_a_directory(tmp_path: Path) -> None:
    with pytest.raises(BadArchive, match="is a directory: name the file"):
        read_manifest(tmp_path)


def test_rejects_a_file_that_is_not_a_backup(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("hello" * 1000)
    with pytest.raises(BadArchive, match="is not a backup"):
        read_manifest(tmp_path / "b")


# The refusals of the commands, before anything is made.


def restored(path: Path, folder: Path) -> int:
    return main("restore", Namespace(file=str(path), data_dir=str(folder)))


def test_restore_checks_the_whole_file_before_it_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "b")
    flip(path, offset_of(path, "database.dump"))
    before = sorted(tmp_path.rglob("*"))
    assert restored(path, tmp_path / "new") == 1
    assert "altered or damaged: database.dump" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (replace(MANIFEST, schema_revision="9999"), "at revision 9999, this program knows"),
        (replace(MANIFEST, schema_revision="0000"), "at revision 0000, this program knows"),
        (replace(MANIFEST, postgres_version=99), "made by PostgreSQL 99 and this machine has"),
    ],
    ids=["newer", "unknown", "newer PostgreSQL"],
)
def test_restore_rejects_files_of_other_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], manifest: Manifest, reason: str
) -> None:
    assert restored(write(tmp_path / "b", manifest), tmp_path / "new") == 1
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_restore_rejects_a_directory_with_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "b")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a file").write_text("mine")
    assert restored(path, tmp_path / "new") == 5
    assert f"{tmp_path / 'new'} is not empty" in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a file"]


def test_restore_reports_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert restored(tmp_path / "none", tmp_path / "new") == 3
    assert f"there is no file {tmp_path / 'none'}" in capsys.readouterr().err


def test_restore_reports_the_disk_space_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "b", replace(MANIFEST, table_bytes=1 << 40))
    assert restored(path, tmp_path / "new") == 1
    assert "the cluster needs about 2.0 TiB" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_failed_restore_removes_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "b"
    with writing(path) as archive:
        archive.add_pieces("database.dump", [b"no dump"])
        archive.add_pieces("settings/cluster.yaml", [b"{}"])
        desired = {"cluster_name": "ours", "host": "127.0.0.1", "port": 1, "agents": []}
        archive.add_pieces("settings/cluster.json", [json.dumps(desired).encode()])
        archive.complete(lambda members: replace(MANIFEST, members=members))
    assert restored(path, tmp_path / "new") == 1
    assert "nothing was restored: pg_restore failed" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["b"]


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    """The data directory of a cluster that has never run."""
    files = LocalFiles(tmp_path / "cluster")
    files.make()
    files.write_desired(Desired("ours", "127.0.0.1", 8080))
    return files


def backed_up(files: LocalFiles, path: Path, **flags: bool) -> int:
    return main("backup", Namespace(file=str(path), data_dir=str(files.folder), **flags))


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("there", 5, "exists: give another FILE, or --force"),
        (".", 5, "is a directory"),
        ("none/b", 3, "there is no directory"),
        ("cluster/objects/b", 5, "is in the cluster's data directory"),
        ("b", 1, "has no database"),
    ],
)
def test_backup_rejects_unsuitable_paths_and_clusters(
    files: LocalFiles,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    code: int,
    reason: str,
) -> None:
    (tmp_path / "there").write_text("mine")
    assert backed_up(files, tmp_path / name) == code
    assert reason in capsys.readouterr().err
    assert (tmp_path / "there").read_text() == "mine"


def test_backup_of_a_directory_with_only_agents_names_the_cluster(
    files: LocalFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files.write_desired(Desired("ours", "", 0, master_url="http://far:8080"))
    assert backed_up(files, tmp_path / "b") == 1
    assert "only agents of the cluster at http://far:8080" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["cluster-up", "cluster-down", "agent-up", "agent-down"])
def test_stopped_cluster_cannot_start_during_a_backup(
    files: LocalFiles, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    holder = files.hold("backup")
    assert holder is not None
    with holder:
        assert main(action, Namespace(data_dir=str(files.folder))) == 5
        assert "writes a backup of this cluster, which is down: wait" in capsys.readouterr().err
        if action == "cluster-up":
            assert main("status", Namespace(data_dir=str(files.folder))) == 3
            sentence = f"down; process {os.getpid()} writes a backup of this cluster\n"
            assert sentence in capsys.readouterr().out
    assert not files.is_backed_up_now()
