"""Complete checkpoints with missing files are marked, but never on a guess."""

import logging
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import boto3
import pytest
from det_controlplane.adapters import checkpoint_files
from det_controlplane.ports.files import StorageUnreachable
from det_controlplane.services.checkpoints import missing_files
from sqlalchemy import text

from tests.support.api import Api, Caller, create_ended, report_checkpoint
from tests.support.moto import moto_server

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


def test_two_checks_without_files_mark_a_checkpoint_until_files_return(
    api: Api, user: Caller, look: Looked, caplog: pytest.LogCaptureFixture
) -> None:
    kept_checkpoint, lost_checkpoint = stored(api, user), stored(api, user)
    (api.checkpoints / lost_checkpoint).rename(api.checkpoints / "moved")
    with caplog.at_level(logging.WARNING, logger="det.checkpoints"):
        look()
        assert not missing(user, lost_checkpoint), "its deletion may be under way"
        assert caplog.messages == []
        look()
        look()
    (message,) = caplog.messages
    assert lost_checkpoint in message
    assert kept_checkpoint not in message
    assert (missing(user, lost_checkpoint), missing(user, kept_checkpoint)) == (True, False)
    checkpoint = user.get(f"/api/v1/checkpoints/{lost_checkpoint}")["checkpoint"]
    assert checkpoint["state"] == "STATE_COMPLETED"
    (api.checkpoints / "moved").rename(api.checkpoints / lost_checkpoint)
    look()
    assert not missing(user, lost_checkpoint)


@pytest.mark.parametrize("mounted", ["not there", "empty", "a file"])
def test_unmounted_storage_marks_no_checkpoint(
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


def test_failed_check_does_not_reset_counts(
    api: Api, user: Caller, look: Looked, tmp_path: Path
) -> None:
    lost_checkpoint, kept_checkpoint = stored(api, user), stored(api, user)
    shutil.rmtree(api.checkpoints / lost_checkpoint)
    look()
    api.checkpoints.rename(tmp_path / "away")
    look()
    look()
    assert looked_at(api, lost_checkpoint) == looked_at(api, kept_checkpoint) == api.ctx.now()
    (tmp_path / "away").rename(api.checkpoints)
    assert not missing(user, lost_checkpoint)
    look()
    assert (missing(user, lost_checkpoint), missing(user, kept_checkpoint)) == (True, False)


def test_no_checkpoint_is_marked_if_none_is_found(api: Api, user: Caller, look: Looked) -> None:
    """The path is one of another machine, and exists here with other content."""
    uuid = stored(api, user)
    (api.checkpoints / uuid).rename(api.checkpoints / "other")
    look()
    look()
    assert not missing(user, uuid)


def test_only_the_storage_of_the_cluster_is_checked(
    api: Api, user: Caller, look: Looked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's storage could delay scheduling or receive the API's credentials."""
    requests: list[str] = []
    take_asked(api, monkeypatch, requests, lambda _: True)
    bucket = {"type": "s3", "bucket": "b", "endpoint_url": "http://127.0.0.1:9"}
    folder = {"type": "directory", "container_path": str(tmp_path)}
    for storage in (bucket, folder):
        report_checkpoint(user, create_ended(user, checkpoint_storage=storage))
    own = stored(api, user)
    look()
    assert requests == [own]


def test_check_ends_at_the_first_unreachable_storage_and_later_continues(
    api: Api, user: Caller, look: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = sorted(stored(api, user) for _ in range(3))
    requests: list[str] = []

    def unreachable(uuid: str) -> bool:
        if uuid == first:
            raise StorageUnreachable("no answer")
        return True

    take_asked(api, monkeypatch, requests, unreachable)
    look()
    assert requests == [first]
    look()
    assert requests == [first, second, third, first]


def test_check_has_a_time_limit_and_later_continues(
    api: Api, user: Caller, look: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuids = sorted(stored(api, user) for _ in range(3))
    requests: list[str] = []

    def slow(_: str) -> bool:
        later = api.ctx.now() + timedelta(seconds=6)
        api.ctx.now = lambda: later
        return True

    take_asked(api, monkeypatch, requests, slow)
    look()
    assert requests == uuids[:2]
    look()
    assert requests[2] == uuids[2]


def test_failed_checkpoint_does_not_stop_the_check_of_others(
    api: Api, user: Caller, look: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sorted(stored(api, user) for _ in range(2))
    requests: list[str] = []

    def broken(uuid: str) -> bool:
        if uuid == first:
            raise ValueError("odd")
        return True

    take_asked(api, monkeypatch, requests, broken)
    look()
    assert requests == [first, second]
    assert looked_at(api, first) == looked_at(api, second)


def take_asked(
    api: Api, monkeypatch: pytest.MonkeyPatch, checkpoints: list[str], answer: Callable[[str], bool]
) -> None:
    def exists(uuid: str) -> bool:
        checkpoints.append(uuid)
        return answer(uuid)

    monkeypatch.setattr(type(api.ctx.checkpoint_files), "finder", lambda *_: exists)


@pytest.mark.parametrize("error", [PermissionError, OSError, RuntimeError])
def test_only_an_absent_folder_counts_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fails(path: object) -> None:
        raise error("odd")

    exists = finder({"type": "directory", "container_path": str(tmp_path)})
    assert not exists("gone")
    monkeypatch.setattr("det_controlplane.adapters.checkpoint_folder.os.lstat", fails)
    with pytest.raises(StorageUnreachable, match="cannot be read: odd"):
        exists("gone")


def test_storage_behind_circular_links_is_unreachable(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(StorageUnreachable):
        finder({"type": "shared_fs", "host_path": str(tmp_path / "a")})("c")


def test_bucket_is_checked_with_one_small_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = {
        "type": "s3",
        "bucket": "bucket",
        "prefix": "p",
        "access_key": "k",
        "secret_key": "s",
    }
    with moto_server() as url:
        client = boto3.client(
            "s3", endpoint_url=url,
            aws_access_key_id="k", aws_secret_access_key="s",
        )  # fmt: skip
        client.create_bucket(
            Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": "us-west-2"}
        )
        client.put_object(Bucket="bucket", Key="p/there/state", Body=b"1")
        exists = finder({**storage, "endpoint_url": url})
        assert (exists("there"), exists("ther")) == (True, False)
        client.close()


def finder(storage: dict[str, str]) -> Callable[[str], bool]:
    return checkpoint_files.ReachableCheckpoints().finder(storage)


def looked_at(api: Api, uuid: str) -> datetime:
    with api.ctx.db.begin() as tx:
        query = text("SELECT files_looked_at FROM checkpoints WHERE uuid = cast(:uuid AS uuid)")
        at: datetime = tx.execute(query, {"uuid": uuid}).scalar_one()
        return at


@pytest.mark.parametrize("kind", ["s3", "gcs"])
def test_unresponsive_bucket_is_unreachable(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """No server listens at this address."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    storage = {
        "type": kind, "bucket": "b", "access_key": "k", "secret_key": "s",
        "endpoint_url": "http://127.0.0.1:9",
    }  # fmt: skip
    with pytest.raises(StorageUnreachable, match="bucket b: "):
        finder(storage)("c")


def test_housekeeping_checks_for_missing_files(api: Api, user: Caller) -> None:
    stored(api, user)
    lost_checkpoint = stored(api, user)
    shutil.rmtree(api.checkpoints / lost_checkpoint)
    start = api.ctx.now()
    for days in (2, 4):
        later = start + timedelta(days=days)
        api.ctx.now = lambda later=later: later  # type: ignore[misc]
        create_ended(user)
        for _ in range(2):
            api.tick()
    assert missing(user, lost_checkpoint)
