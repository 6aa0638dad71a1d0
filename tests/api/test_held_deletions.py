"""The cluster deletes no stored files during a backup, and deletes the queued files after it."""

import threading
from datetime import timedelta

import pytest
from det_controlplane.db.checkpoints import checkpoints
from det_controlplane.db.cluster import backups, outbox
from det_controlplane.db.engine.database import Database
from det_controlplane.db.schema.enums import EffectKind
from det_controlplane.services.checkpoints import collection
from sqlalchemy import text

from tests.api.test_checkpoint_removal import collections
from tests.support.api import Api, Caller, create, report_checkpoint
from tests.support.processes import eventually

KEY = "contexts/unused"


@pytest.fixture
def ended(user: Caller) -> int:
    """An ended experiment with two checkpoints; it keeps one of them."""
    experiment_id = create(user)
    for steps in (2, 4):
        report_checkpoint(user, experiment_id, steps)
    user.post(f"/api/v1/experiments/{experiment_id}/kill")
    return experiment_id


def tick_later(api: Api) -> None:
    """Advance the clock until failed effects are retried."""
    later = api.ctx.now() + timedelta(minutes=5)
    api.ctx.now = lambda: later
    api.tick()


def test_discarded_checkpoints_of_an_ended_experiment_are_deleted_after_the_backup(
    api: Api, ended: int, database_url: str
) -> None:
    with backups.holding_deletions(database_url):
        api.tick()
        tick_later(api)
        assert collections(api) == []
    tick_later(api)
    (work,) = collections(api)
    assert (work["experiment_id"], len(work["checkpoints"])) == (ended, 1)


def test_uploaded_archive_is_deleted_after_the_backup(api: Api, database_url: str) -> None:
    api.ctx.objects.put(KEY, b"code")
    with api.ctx.db.begin() as tx:
        outbox.add(tx, EffectKind.DELETE_OBJECT, {"key": KEY}, api.ctx.now())
    with backups.holding_deletions(database_url):
        api.tick()
        assert api.ctx.objects.get(KEY) == b"code"
    tick_later(api)
    assert api.ctx.objects.get(KEY) is None


@pytest.mark.parametrize("what", ["checkpoint", "files", "tensorboards"])
def test_rejects_deletions_by_users_with_the_reason(
    api: Api, user: Caller, ended: int, database_url: str, what: str
) -> None:
    checkpoint = report_checkpoint(user, ended, 6)

    body = {"checkpointUuids": [checkpoint], "checkpointGlobs": ["**/*.py"]}
    request = {
        "checkpoint": ("DELETE", "/api/v1/checkpoints", body),
        "files": ("POST", "/api/v1/checkpoints/rm", body),
        "tensorboards": ("DELETE", f"/api/v1/experiments/{ended}/tensorboard-files", None),
    }[what]
    with backups.holding_deletions(database_url):
        assert user.ask(*request).status == 400
        assert collections(api) == []
    assert user.ask(*request).status == 200
    assert len(collections(api)) == 1


def test_error_names_the_backup(user: Caller, ended: int, database_url: str) -> None:
    checkpoint = report_checkpoint(user, ended, 6)
    with backups.holding_deletions(database_url):
        answer = user.ask("DELETE", "/api/v1/checkpoints", {"checkpointUuids": [checkpoint]})
    assert "a backup of the cluster is being written" in answer.error


def test_housekeeping_during_a_backup_skips_incomplete_uploads(
    api: Api, ended: int, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads = [(ended, [api.ctx.random.uuid()])]
    monkeypatch.setattr(checkpoints, "interrupted_uploads", lambda *_: uploads)
    with backups.holding_deletions(database_url):
        collection.collect_cut_off(api.ctx)
    assert collections(api) == []


def test_backup_waits_for_deletions_being_queued(database: Database, database_url: str) -> None:
    began = threading.Event()

    def back_up() -> None:
        with backups.holding_deletions(database_url):
            began.set()

    thread = threading.Thread(target=back_up)
    with database.begin() as tx:
        assert not backups.deletions_are_held(tx)
        thread.start()
        waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        assert eventually(lambda: database.read(waiting)[0][0] == 1)
        assert not began.is_set()
    thread.join()
    assert began.is_set()


def test_rejects_two_concurrent_backups(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "_WAIT_MS", 1)
    with (
        backups.holding_deletions(database_url),
        pytest.raises(backups.BackupRunning, match="another backup"),
        backups.holding_deletions(database_url),
    ):
        pass
    with backups.holding_deletions(database_url):
        pass
