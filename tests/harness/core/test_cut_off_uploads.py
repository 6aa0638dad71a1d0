"""Uploads are registered before their first file, so that the cluster can delete the files of interrupted uploads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from determined import core

from tests.support.fake_master import FakeMaster, Request

Enter = Callable[..., dict[str, str]]
STEPS = {"steps_completed": 4}
PATH = "/api/v1/checkpoints"


def files_at_registrations(master: FakeMaster, shared: Path) -> list[int]:
    """Return a list that receives the number of stored files at each registration."""
    counts = []

    def answer(request: Request) -> tuple[int, dict[str, Any]]:
        if request.body["state"] == "STATE_ACTIVE":
            counts.append(sum(1 for path in shared.rglob("*") if path.is_file()))
        return 200, {}

    master.on("POST", PATH, answer)
    return counts


def registrations(master: FakeMaster) -> list[dict[str, Any]]:
    bodies = [r.body for r in master.received("POST", PATH)]
    return [b for b in bodies if b["state"] == "STATE_ACTIVE"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "weights").write_text("w")
    return folder


def test_upload_is_registered_before_its_first_file(
    master: FakeMaster, on_cluster: Enter, tmp_path: Path, source: Path
) -> None:
    on_cluster()
    counts = files_at_registrations(master, tmp_path / "shared")
    with core.init() as context:
        alone = context.checkpoint.upload(source, dict(STEPS))
        sharded = context.checkpoint.upload(source, dict(STEPS), shard=True)
    files_per_upload = 2  # weights and metadata.json
    assert counts == [0, files_per_upload]
    assert [a["uuid"] for a in registrations(master)] == [alone, sharded]
    assert [a["metadata"] for a in registrations(master)] == [STEPS, STEPS]
    assert [a["resources"] for a in registrations(master)] == [{}, {}]


def test_store_path_is_registered_before_it_is_yielded(
    master: FakeMaster, on_cluster: Enter
) -> None:
    on_cluster()
    metadata: dict[str, Any] = {}
    with (
        core.init() as context,
        context.checkpoint.store_path(metadata) as (path, storage_id),
    ):
        (registration,) = registrations(master)
        (path / "weights").write_text("w")
        metadata.update(STEPS)
    assert (registration["uuid"], registration["metadata"]) == (storage_id, {})
    assert [r.body["uuid"] for r in master.saved()] == [storage_id]


def test_failed_upload_without_files_is_unregistered(master: FakeMaster, on_cluster: Enter) -> None:
    on_cluster()

    def save(context: core.Context) -> None:
        with context.checkpoint.store_path(dict(STEPS)):
            raise KeyError("no such layer")

    with core.init() as context, pytest.raises(KeyError):
        save(context)
    (registration,) = registrations(master)
    (patch,) = master.received("PATCH", PATH)
    unregistered = {"uuid": registration["uuid"], "resources": {"resources": {}}}
    assert patch.body["checkpoints"] == [unregistered]


def test_failed_upload_with_files_stays_registered(
    master: FakeMaster, on_cluster: Enter, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cluster()
    with core.init() as context:
        manager = context.checkpoint._storage
        monkeypatch.setattr(manager, "write_checksums", _disk_full)
        with pytest.raises(OSError, match="No space left"):
            context.checkpoint.upload(source, dict(STEPS))
    assert len(registrations(master)) == 1
    assert master.received("PATCH", PATH) == []
    assert master.saved() == []


def _disk_full(*_: Any) -> None:
    raise OSError(28, "No space left on device")
