import json
from pathlib import Path
from typing import Any

import pytest
from determined.common import storage
from determined.common.storage._base import matches_any
from determined.core._shards import merge_metadata, merge_resources, own_files
from determined.errors import CheckpointConflict
from determined.exec import gc_checkpoints

from tests.support.fake_master import FakeMaster


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "m.py").write_text("x")
    (folder / "w.pt").write_text("weights")
    return folder


def manager_at(folder: Path) -> storage.StorageManager:
    return storage.from_config({"type": "directory", "container_path": str(folder)})


def test_directory_storage_returns_stored_files(tmp_path: Path, source: Path) -> None:
    manager = manager_at(tmp_path / "store")
    manager.upload(source, "uuid-1")
    manager.download("uuid-1", tmp_path / "out", lambda path: path.startswith("code/"))
    assert (tmp_path / "out" / "code" / "m.py").read_text() == "x"
    assert not (tmp_path / "out" / "w.pt").exists()
    assert manager.list("uuid-1") == {"code/": 0, "code/m.py": 1, "w.pt": 7}


def test_delete_by_glob_returns_remaining_files(tmp_path: Path, source: Path) -> None:
    manager = manager_at(tmp_path / "store")
    manager.upload(source, "uuid-1")
    assert manager.delete("uuid-1", ["code/**"]) == {"w.pt": 7}
    assert manager.delete("uuid-1") == {}
    assert not (tmp_path / "store" / "uuid-1").exists()
    assert manager.delete("uuid-1") == {}


@pytest.mark.parametrize("bad", ["../up", "a/../b", "/etc", ""])
def test_ids_cannot_leave_the_storage(tmp_path: Path, bad: str) -> None:
    with pytest.raises(ValueError, match="not valid"):
        manager_at(tmp_path).delete(bad)


@pytest.mark.parametrize(
    ("storage_path", "expected"),
    [(None, "/host"), ("a/b", "/host/a/b"), ("/host/c", "/host/c"), ("./d/", "/host/d")],
)
def test_shared_fs_path_is_below_host_path(storage_path: str | None, expected: str) -> None:
    config = {"type": "shared_fs", "host_path": "/host", "storage_path": storage_path}
    assert storage.from_config(config).direct_path("u") == f"{expected}/u"


@pytest.mark.parametrize("outside", ["../x", "/elsewhere", "a/../../b"])
def test_rejects_storage_path_outside_of_host_path(outside: str) -> None:
    with pytest.raises(ValueError, match="outside of host_path"):
        storage.from_config({"type": "shared_fs", "host_path": "/host", "storage_path": outside})


def test_task_uses_mount_point_of_shared_fs(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"type": "shared_fs", "host_path": "/host", "storage_path": "ckpts"}
    monkeypatch.delenv("DET_PATH_MAP", raising=False)
    assert (
        storage.from_config(config, in_task=True).direct_path("u")
        == "/determined_shared_fs/ckpts/u"
    )
    monkeypatch.setenv("DET_PATH_MAP", json.dumps({"/determined_shared_fs": "/mapped"}))
    assert storage.from_config(config, in_task=True).direct_path("u") == "/mapped/ckpts/u"


def test_error_for_unknown_type_lists_known_types() -> None:
    with pytest.raises(ValueError, match="s3, gcs, azure"):
        storage.from_config({"type": "floppy"})


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("**/*", "a/b/c", True),
        ("**/*", "a", True),
        ("*.pt", "a/b.pt", False),
        ("**/*.pt", "a/b.pt", True),
        ("**/*.pt", "b.pt", True),
        ("code/", "code/deep/x", True),
        ("a?c", "abc", True),
        ("[!a]x", "bx", True),
        ("[!a]x", "ax", False),
        ("a.b", "axb", False),
    ],
)
def test_globs(glob: str, path: str, matches: bool) -> None:
    assert matches_any(path, [glob]) is matches


def test_lowest_rank_uploads_a_shared_file() -> None:
    by_rank = [{"d/": 0, "d/a": 1}, {"d/": 0, "d/a": 1, "d/b": 2}]
    assert merge_resources(by_rank) == {"d/": 0, "d/a": 1, "d/b": 2}
    assert own_files(by_rank, 0) == ["d/", "d/a"]
    assert own_files(by_rank, 1) == ["d/", "d/b"]


def test_empty_selection_stores_no_files(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "f").write_text("1")
    storage.DirectoryStorageManager(str(tmp_path / "store")).upload(tmp_path / "src", "a", [])
    assert list((tmp_path / "store" / "a").iterdir()) == []


def test_programs_can_construct_shared_fs_storage(tmp_path: Path) -> None:
    config = {"type": "shared_fs", "host_path": "/data", "storage_path": "runs"}
    manager = storage.SharedFSStorageManager.from_config(config, str(tmp_path))
    with manager.store_path("a") as path:
        (path / "w").write_text("1")
    assert (tmp_path / "runs" / "a" / "w").exists()
    with manager.restore_path("a") as path:
        assert (path / "w").read_text() == "1"


def test_metadata_of_ranks_is_merged_by_key() -> None:
    first, second = {"steps": 1, "n": {"a": 1}}, {"steps": 1, "n": {"b": 2}}
    assert merge_metadata([first, second]) == {"steps": 1, "n": {"a": 1, "b": 2}}
    assert first == {"steps": 1, "n": {"a": 1}}
    with pytest.raises(CheckpointConflict, match=r"n\.a \(rank 1\)"):
        merge_metadata([{"n": {"a": 1}}, {"n": {"a": 2}}])


def run_gc(monkeypatch: pytest.MonkeyPatch, master: FakeMaster, folder: Path, **spec: Any) -> int:
    full = {"storage": {"type": "directory", "container_path": str(folder)}, **spec}
    monkeypatch.setenv("DET_MASTER", master.url)
    monkeypatch.setenv("DET_GC_SPEC", json.dumps(full))
    return gc_checkpoints.main([])


def test_collection_deletes_and_reports(
    monkeypatch: pytest.MonkeyPatch, master: FakeMaster, tmp_path: Path, source: Path
) -> None:
    manager = manager_at(tmp_path / "store")
    for name in ("one", "two", "kept"):
        manager.upload(source, name)
    assert run_gc(monkeypatch, master, tmp_path / "store", checkpoints=["one", "two", "gone"]) == 0
    assert [p.name for p in (tmp_path / "store").iterdir()] == ["kept"]
    patches = master.received("PATCH", "/api/v1/checkpoints")[0].body["checkpoints"]
    assert {p["uuid"]: p["resources"]["resources"] for p in patches} == {
        "one": {},
        "two": {},
        "gone": {},
    }


def test_unmounted_directory_is_not_reported_as_empty(
    monkeypatch: pytest.MonkeyPatch, master: FakeMaster, tmp_path: Path
) -> None:
    assert run_gc(monkeypatch, master, tmp_path / "elsewhere", checkpoints=["one"]) == 1
    assert not master.received("PATCH", "/api/v1/checkpoints")


def test_collection_by_glob_reports_remaining_files(
    monkeypatch: pytest.MonkeyPatch, master: FakeMaster, tmp_path: Path, source: Path
) -> None:
    manager_at(tmp_path / "store").upload(source, "one")
    spec = {"checkpoints": ["one"], "globs": ["**/*.py"]}
    assert run_gc(monkeypatch, master, tmp_path / "store", **spec) == 0
    patch = master.received("PATCH", "/api/v1/checkpoints")[0].body["checkpoints"][0]
    assert patch["resources"]["resources"] == {"w.pt": "7"}


def test_collection_with_empty_globs_reports_files_without_deleting(
    monkeypatch: pytest.MonkeyPatch, master: FakeMaster, tmp_path: Path, source: Path
) -> None:
    manager_at(tmp_path / "store").upload(source, "one")
    (tmp_path / "store" / "one" / "empty").mkdir()
    spec = {"checkpoints": ["one", "gone"], "globs": []}
    assert run_gc(monkeypatch, master, tmp_path / "store", **spec) == 0
    assert (tmp_path / "store" / "one" / "empty").is_dir()
    patches = master.received("PATCH", "/api/v1/checkpoints")[0].body["checkpoints"]
    all_files = {"code/": "0", "code/m.py": "1", "empty/": "0", "w.pt": "7"}
    assert [p["resources"]["resources"] for p in patches] == [all_files, {}]


def test_unmounted_storage_reports_no_checkpoints(
    monkeypatch: pytest.MonkeyPatch, master: FakeMaster, tmp_path: Path
) -> None:
    spec = {"checkpoints": ["one"], "globs": []}
    assert run_gc(monkeypatch, master, tmp_path / "elsewhere", **spec) == 1
    assert not master.received("PATCH", "/api/v1/checkpoints")


def test_failed_deletion_does_not_stop_other_deletions(
    monkeypatch: pytest.MonkeyPatch, master: FakeMaster, tmp_path: Path, source: Path
) -> None:
    manager_at(tmp_path / "store").upload(source, "one")
    assert run_gc(monkeypatch, master, tmp_path / "store", checkpoints=["../bad", "one"]) == 1
    patches = master.received("PATCH", "/api/v1/checkpoints")[0].body["checkpoints"]
    assert [p["uuid"] for p in patches] == ["one"]


def test_dry_run_deletes_no_files(
    monkeypatch: pytest.MonkeyPatch, master: FakeMaster, tmp_path: Path, source: Path
) -> None:
    manager_at(tmp_path / "store").upload(source, "one")
    assert run_gc(monkeypatch, master, tmp_path / "store", checkpoints=["one"], dry_run=True) == 0
    assert (tmp_path / "store" / "one").exists()
    assert not master.received("PATCH", "/api/v1/checkpoints")


def test_tensorboard_files_are_deleted_with_their_experiment(
    monkeypatch: pytest.MonkeyPatch, master: FakeMaster, tmp_path: Path, source: Path
) -> None:
    manager = manager_at(tmp_path / "store")
    manager.upload(source, "c/tensorboard/experiment/4/trial/1")
    manager.upload(source, "c/tensorboard/experiment/44/trial/1")
    spec = {"delete_tensorboards": True, "experiment_id": 4, "cluster_id": "c"}
    assert run_gc(monkeypatch, master, tmp_path / "store", **spec) == 0
    names = [p.name for p in (tmp_path / "store" / "c" / "tensorboard" / "experiment").iterdir()]
    assert names == ["44"]


def test_tensorboard_files_of_several_experiments_are_collected_by_one_task(
    monkeypatch: pytest.MonkeyPatch, master: FakeMaster, tmp_path: Path, source: Path
) -> None:
    manager = manager_at(tmp_path / "store")
    for experiment_id in (4, 5, 44):
        manager.upload(source, f"c/tensorboard/experiment/{experiment_id}/trial/1")
    spec = {
        "delete_tensorboards": True,
        "experiment_id": 4,
        "experiment_ids": [4, 44],
        "cluster_id": "c",
    }
    assert run_gc(monkeypatch, master, tmp_path / "store", **spec) == 0
    names = [p.name for p in (tmp_path / "store" / "c" / "tensorboard" / "experiment").iterdir()]
    assert names == ["5"]
