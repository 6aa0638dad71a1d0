"""Complete checkpoints whose files are gone from their storage are marked, and never on a guess."""

import logging
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from det_controlplane.adapters import checkpoint_files
from det_controlplane.ports.checkpoint_files import StorageUnreachable
from det_controlplane.services.checkpoints import missing_files
from sqlalchemy import text

from tests.support.api import Api, Caller, create_ended, report_checkpoint

Looked = Callable[[], None]


@pytest.fixture
def look(api: Api) -> Looked:
    """Look once more, when it is time for that."""
    start, days = api.ctx.now(), [0.0]

    def look() -> None:
        days[0] += 1.1
        api.ctx.now = lambda: start + timedelta(days=days[0])
        missing_files.look(api.ctx)

    return look


def stored(api: Api, user: Caller, **storage: object) -> str:
    uuid = report_checkpoint(user, create_ended(user, **storage))
    (api.checkpoints / uuid).mkdir(parents=True)
    (api.checkpoints / uuid / "state").write_bytes(b"1")
    return uuid


def missing(user: Caller, uuid: str) -> bool:
    return bool(user.get(f"/api/v1/checkpoints/{uuid}")["checkpoint"]["filesMissing"])


def test_two_looks_without_files_mark_a_checkpoint_and_one_with_files_unmarks_it(
    api: Api, user: Caller, look: Looked, caplog: pytest.LogCaptureFixture
) -> None:
    kept, lost = stored(api, user), stored(api, user)
    (api.checkpoints / lost).rename(api.checkpoints / "moved")
    with caplog.at_level(logging.WARNING, logger="det.checkpoints"):
        look()
        assert not missing(user, lost), "its deletion may be under way"
        assert caplog.messages == []
        look()
        look()
    (told,) = caplog.messages
    assert lost in told
    assert kept not in told
    assert (missing(user, lost), missing(user, kept)) == (True, False)
    shown = user.get(f"/api/v1/checkpoints/{lost}")["checkpoint"]
    assert shown["state"] == "STATE_COMPLETED"
    (api.checkpoints / "moved").rename(api.checkpoints / lost)
    look()
    assert not missing(user, lost)


@pytest.mark.parametrize("mounted", ["not there", "empty", "a file"])
def test_a_storage_that_is_not_mounted_marks_nothing(
    api: Api, user: Caller, look: Looked, mounted: str
) -> None:
    uuid = stored(api, user)
    shutil.rmtree(api.checkpoints)
    if mounted == "empty":
        api.checkpoints.mkdir()
    elif mounted == "a file":
        api.checkpoints.write_text("")
    for _ in range(3):
        look()
    assert not missing(user, uuid)


def test_one_look_that_fails_keeps_the_count_and_the_turn_of_others(
    api: Api, user: Caller, look: Looked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_files, "_AT_ONCE", 1)
    lost, kept = sorted([stored(api, user), stored(api, user)])
    shutil.rmtree(api.checkpoints / lost)
    look()
    api.checkpoints.rename(tmp_path / "away")
    look()
    look()
    assert looked_at(api, lost) > looked_at(api, kept)
    (tmp_path / "away").rename(api.checkpoints)
    look()
    assert not missing(user, lost)
    look()
    assert (missing(user, lost), missing(user, kept)) == (True, False)


def looked_at(api: Api, uuid: str) -> datetime:
    with api.ctx.db.begin() as tx:
        found = text("SELECT files_looked_at FROM checkpoints WHERE uuid = cast(:uuid AS uuid)")
        at: datetime = tx.execute(found, {"uuid": uuid}).scalar_one()
        return at


def test_what_a_bucket_does_not_answer_marks_nothing(api: Api, user: Caller, look: Looked) -> None:
    """Nothing listens there."""
    storage = {
        "type": "s3", "bucket": "b", "access_key": "k", "secret_key": "s",
        "endpoint_url": "http://127.0.0.1:9",
    }  # fmt: skip
    uuid = report_checkpoint(user, create_ended(user, checkpoint_storage=storage))
    look()
    look()
    assert not missing(user, uuid)
    assert looked_at(api, uuid) == api.ctx.now()


def test_a_bucket_of_google_cloud_that_does_not_answer_is_given_up_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    monkeypatch.setattr(checkpoint_files, "READ_S", 0.2)
    with pytest.raises(StorageUnreachable, match=r"bucket b: Timeout of 0\.2s exceeded"):
        checkpoint_files.ReachableCheckpoints().files({"type": "gcs", "bucket": "b"}, "c")


def test_housekeeping_looks(api: Api, user: Caller) -> None:
    stored(api, user)
    lost = stored(api, user)
    shutil.rmtree(api.checkpoints / lost)
    start = api.ctx.now()
    for days in (2, 4):
        later = start + timedelta(days=days)
        api.ctx.now = lambda later=later: later  # type: ignore[misc]
        create_ended(user)
        for _ in range(2):
            api.tick()
    assert missing(user, lost)
