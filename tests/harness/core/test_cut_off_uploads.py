"""Uploads are announced before their first file: the cluster collects what is left of those that end early."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from determined import core

from tests.support.fake_master import FakeMaster, Request

Enter = Callable[..., dict[str, str]]
STEPS = {"steps_completed": 4}
PATH = "/api/v1/checkpoints"


def files_at_announcements(master: FakeMaster, shared: Path) -> list[int]:
    """Count, at each announcement, the files that the storage has by then."""
    counts = []

    def answer(request: Request) -> tuple[int, dict[str, Any]]:
        if request.body["state"] == "STATE_ACTIVE":
            counts.append(sum(1 for path in shared.rglob("*") if path.is_file()))
        return 200, {}

    master.on("POST", PATH, answer)
    return counts


def announced(master: FakeMaster) -> list[dict[str, Any]]:
    bodies = [r.body for r in master.received("POST", PATH)]
    return [b for b in bodies if b["state"] == "STATE_ACTIVE"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "weights").write_text("w")
    return folder


def test_an_upload_is_announced_before_its_first_file(
    master: FakeMaster, on_cluster: Enter, tmp_path: Path, source: Path
) -> None:
    on_cluster()
    counts = files_at_announcements(master, tmp_path / "shared")
    with core.init() as context:
        alone = context.checkpoint.upload(source, dict(STEPS))
        sharded = context.checkpoint.upload(source, dict(STEPS), shard=True)
    each = 2  # weights and metadata.json
    assert counts == [0, each]
    assert [a["uuid"] for a in announced(master)] == [alone, sharded]
    assert [a["metadata"] for a in announced(master)] == [STEPS, STEPS]
    assert [a["resources"] for a in announced(master)] == [{}, {}]


def test_a_directory_to_fill_is_announced_before_it_is_handed_out(
    master: FakeMaster, on_cluster: Enter
) -> None:
    on_cluster()
    metadata: dict[str, Any] = {}
    with (
        core.init() as context,
        context.checkpoint.store_path(metadata) as (path, storage_id),
    ):
        (told,) = announced(master)
        (path / "weights").write_text("w")
        metadata.update(STEPS)
    assert (told["uuid"], told["metadata"]) == (storage_id, {})
    assert [r.body["uuid"] for r in master.saved()] == [storage_id]


def test_an_upload_that_fails_and_leaves_nothing_is_taken_back(
    master: FakeMaster, on_cluster: Enter
) -> None:
    on_cluster()

    def save(context: core.Context) -> None:
        with context.checkpoint.store_path(dict(STEPS)):
            raise KeyError("no such layer")

    with core.init() as context, pytest.raises(KeyError):
        save(context)
    (told,) = announced(master)
    (patch,) = master.received("PATCH", PATH)
    gone = {"uuid": told["uuid"], "resources": {"resources": {}}}
    assert patch.body["checkpoints"] == [gone]


def test_an_upload_that_fails_half_way_is_left_to_the_cluster(
    master: FakeMaster, on_cluster: Enter, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cluster()
    with core.init() as context:
        manager = context.checkpoint._storage
        monkeypatch.setattr(manager, "write_checksums", _disk_full)
        with pytest.raises(OSError, match="No space left"):
            context.checkpoint.upload(source, dict(STEPS))
    assert len(announced(master)) == 1
    assert master.received("PATCH", PATH) == []
    assert master.saved() == []


def _disk_full(*_: Any) -> None:
    raise OSError(28, "No space left on device")
