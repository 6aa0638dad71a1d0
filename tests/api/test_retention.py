"""Expired logs of ended work are deleted once a day at most."""

from datetime import timedelta

import pytest
from det_controlplane.services.logs import retention

from tests.support.api import PASSWORD, Api, Caller, create, create_ended, trial_of


def write_log(user: Caller, experiment_id: int) -> str:
    trial = trial_of(user, experiment_id)
    line = {"taskId": trial["taskId"], "log": "hello", "timestamp": "2026-11-20T10:00:00Z"}
    user.post("/api/v1/task/logs", {"logs": [line]})
    user.done("PUT", f"/api/v1/trials/{trial['id']}/retain_logs", {"numDays": 10})
    return str(trial["taskId"])


def lines_of(user: Caller, task_id: str) -> int:
    return len(user.lines(f"/api/v1/tasks/{task_id}/logs"))


def test_only_old_logs_of_ended_tasks_are_deleted(api: Api, user: Caller) -> None:
    ended_task, live = write_log(user, create_ended(user)), write_log(user, create(user))
    line_count = lines_of(user, live)
    later = api.ctx.now() + timedelta(days=11)
    api.ctx.now = lambda: later
    admin, user = api.signed_in("admin"), api.signed_in("determined")
    assert user.ask("POST", "/api/v1/cleanup_logs").status == 403
    assert int(admin.post("/api/v1/cleanup_logs")["removedCount"]) > 0
    assert (lines_of(user, ended_task), lines_of(user, live)) == (0, line_count)


def test_expired_lines_above_the_batch_size_are_all_deleted(
    api: Api, user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 1)
    tasks = [write_log(user, create_ended(user)) for _ in range(2)]
    later = api.ctx.now() + timedelta(days=11)
    api.ctx.now = lambda: later
    caller = api.signed_in("admin").post("/api/v1/cleanup_logs")["removedCount"]
    user = api.signed_in("determined")
    assert int(caller) >= 2
    assert [lines_of(user, task) for task in tasks] == [0, 0]


def test_end_of_an_experiment_deletes_logs_once_a_day(api: Api, user: Caller) -> None:
    task = write_log(user, create_ended(user))
    api.tick()
    assert lines_of(user, task) > 0
    for days, is_left in ((1, True), (11, False)):
        later = api.ctx.now() + timedelta(days=days)
        api.ctx.now = lambda later=later: later  # type: ignore[misc]
        user = api.signed_in("determined")
        create_ended(user)
        api.tick()
        assert (lines_of(user, task) > 0) is is_left


@pytest.mark.parametrize("of", ["experiment", "trial", "many"])
def test_only_the_owner_shortens_log_retention(api: Api, admin: Caller, of: str) -> None:
    """Every user who may edit may keep them longer."""
    new = {"user": {"username": "other", "active": True}, "password": PASSWORD, "isHashed": False}
    admin.post("/api/v1/users", new)
    user, other = api.signed_in("determined"), api.signed_in("other")
    experiment_id = create_ended(user)
    path = {
        "experiment": f"/api/v1/experiments/{experiment_id}/retain_logs",
        "trial": f"/api/v1/trials/{trial_of(user, experiment_id)['id']}/retain_logs",
        "many": "/api/v1/projects/1/experiments/retain_logs",
    }[of]
    many = {"experimentIds": [experiment_id], "projectId": 1} if of == "many" else {}

    def set_by(caller: Caller, days: int) -> bool:
        response = caller.ask("PUT", path, {"numDays": days, **many})
        if of == "many":
            return not response.json()["results"][0]["error"]
        assert response.status in (200, 403)
        return response.status == 200

    assert not set_by(other, 1000), "the cluster keeps them for good"
    assert set_by(user, 10)
    assert [set_by(other, days) for days in (9, 0, 11, -1, 11)] == [False, False, True, True, False]
    assert set_by(admin, 5)
