"""Logs past their retention go, once a day at most, and only of what has ended."""

from datetime import timedelta

import pytest
from det_controlplane.services.logs import retention

from tests.support.api import Api, Caller, create, create_ended, trial_of


def write_log(user: Caller, experiment_id: int) -> str:
    trial = trial_of(user, experiment_id)
    line = {"taskId": trial["taskId"], "log": "hello", "timestamp": "2026-11-20T10:00:00Z"}
    user.post("/api/v1/task/logs", {"logs": [line]})
    user.done("PUT", f"/api/v1/trials/{trial['id']}/retain_logs", {"numDays": 10})
    return str(trial["taskId"])


def lines_of(user: Caller, task_id: str) -> int:
    return len(user.lines(f"/api/v1/tasks/{task_id}/logs"))


def test_old_logs_of_ended_tasks_go_and_others_stay(api: Api, user: Caller) -> None:
    ended, live = write_log(user, create_ended(user)), write_log(user, create(user))
    kept = lines_of(user, live)
    later = api.ctx.now() + timedelta(days=11)
    api.ctx.now = lambda: later
    admin, user = api.signed_in("admin"), api.signed_in("determined")
    assert user.ask("POST", "/api/v1/cleanup_logs").status == 403
    assert int(admin.post("/api/v1/cleanup_logs")["removedCount"]) > 0
    assert (lines_of(user, ended), lines_of(user, live)) == (0, kept)


def test_more_lines_than_go_at_once_all_go(
    api: Api, user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 1)
    tasks = [write_log(user, create_ended(user)) for _ in range(2)]
    later = api.ctx.now() + timedelta(days=11)
    api.ctx.now = lambda: later
    removed = api.signed_in("admin").post("/api/v1/cleanup_logs")["removedCount"]
    user = api.signed_in("determined")
    assert int(removed) >= 2
    assert [lines_of(user, task) for task in tasks] == [0, 0]


def test_the_end_of_an_experiment_cleans_up_once_a_day(api: Api, user: Caller) -> None:
    task = write_log(user, create_ended(user))
    api.tick()
    assert lines_of(user, task) > 0
    for days, left in ((1, True), (11, False)):
        later = api.ctx.now() + timedelta(days=days)
        api.ctx.now = lambda later=later: later  # type: ignore[misc]
        user = api.signed_in("determined")
        create_ended(user)
        api.tick()
        assert (lines_of(user, task) > 0) is left
