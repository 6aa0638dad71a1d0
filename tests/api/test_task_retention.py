"""Tasks without an experiment are deleted a number of days after their end, with logs, files and tokens."""

import base64
import os
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from det_controlplane.db.engine.errors import DatabaseDown, QueryFailed
from det_controlplane.db.tasks import ended_tasks
from det_controlplane.services.code import model_definitions
from det_controlplane.services.tasks import lifecycle
from sqlalchemy import text

from tests.support.api import Api, Caller
from tests.support.played_agent import PlayedAgent

V = "/api/v1"
CONFIG = "entrypoint: [python3, work.py]\nresources: {slots: 0}\n"


@pytest.fixture(autouse=True)
def large_files_are_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_definitions, "INLINE_LIMIT", 16)


def keep(api: Api, days: int) -> None:
    policy = replace(api.ctx.config.retention_policy, task_retention_days=days)
    api.ctx.config = replace(api.ctx.config, retention_policy=policy)


def file() -> dict[str, Any]:
    content = base64.b64encode(os.urandom(64)).decode()
    return {
        "path": "work.py",
        "type": 48,
        "content": content,
        "mtime": "1",
        "mode": 420,
        "uid": 0,
        "gid": 0,
    }


def generic(user: Caller, **more: Any) -> str:
    body = {"config": CONFIG, "contextDirectory": [file()], **more}
    return str(user.post(f"{V}/generic-tasks", body)["taskId"])


def run_to_its_end(api: Api, agent: PlayedAgent) -> None:
    api.tick()
    (order,) = agent.poll()
    agent.poll()
    task = api.with_token(order["spec"]["session_token"])
    line = {"taskId": order["spec"]["task_id"], "log": "hello", "timestamp": "2026-11-20T10:00:00Z"}
    task.post(f"{V}/task/logs", {"logs": [line]})
    agent.poll("terminated", exit_code=0)


def later(api: Api, days: float) -> None:
    time = api.ctx.now() + timedelta(days=days)
    api.ctx.now = lambda: time
    for _ in range(3):
        api.tick()


def count(api: Api, table: str, **of: str) -> int:
    condition = " AND ".join(f"{name} = :{name}" for name in of) or "true"
    with api.ctx.db.begin() as tx:
        return int(
            tx.execute(text(f"SELECT count(*) FROM {table} WHERE {condition}"), of).scalar_one()
        )


def objects(api: Api) -> set[str]:
    with api.ctx.db.begin() as tx:
        keys = tx.execute(text("SELECT object_key FROM contexts WHERE object_key IS NOT NULL"))
        return set(keys.scalars())


def test_expired_task_is_deleted_with_its_logs_files_and_tokens(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    keep(api, 10)
    id = generic(user)
    (key,) = objects(api)
    run_to_its_end(api, agent)
    assert api.ctx.objects.get(key) is not None
    later(api, 9)
    assert count(api, "tasks", id=id) == 1
    later(api, 2)
    assert count(api, "tasks", id=id) == 0
    for table in ("allocations", "task_logs"):
        assert count(api, table, task_id=id) == 0, table
    for table in ("containers", "jobs", "contexts"):
        assert count(api, table) == 0, table
    assert count(api, "sessions", kind="allocation") == 0
    assert api.ctx.objects.get(key) is None
    response = api.signed_in("determined").ask("GET", f"{V}/tasks/{id}")
    assert response.status == 404


def test_usage_of_a_deleted_task_remains(api: Api, user: Caller, agent: PlayedAgent) -> None:
    keep(api, 1)
    id = generic(user)
    run_to_its_end(api, agent)
    later(api, 2)
    assert count(api, "deleted_allocations", id=f"{id}.1") == 1


@pytest.mark.parametrize("days", [-1, 0])
def test_tasks_are_not_deleted_without_a_retention(
    api: Api, user: Caller, agent: PlayedAgent, days: int
) -> None:
    keep(api, days)
    id = generic(user)
    run_to_its_end(api, agent)
    later(api, 5000)
    assert count(api, "tasks", id=id) == 1


def test_files_shared_with_another_task_are_not_deleted(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    keep(api, 1)
    first = generic(user)
    (key,) = objects(api)
    run_to_its_end(api, agent)
    later(api, 0.9)
    user = api.signed_in("determined")
    fork = generic(user, forkedFrom=first, contextDirectory=[], config="")
    later(api, 0.2)
    assert (count(api, "tasks", id=first), count(api, "tasks", id=fork)) == (0, 1)
    assert api.ctx.objects.get(key) is not None


def test_parent_is_not_deleted_before_its_children_end(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    keep(api, 1)
    parent = generic(user)
    api.tick()
    agent.poll()
    agent.poll()
    child = generic(user, parentId=parent)
    agent.poll("terminated", exit_code=0)
    later(api, 2)
    assert (count(api, "tasks", id=parent), count(api, "tasks", id=child)) == (1, 1)
    api.signed_in("determined").post(f"{V}/tasks/{child}/kill", {"taskId": child})
    later(api, 2)
    assert (count(api, "tasks", id=parent), count(api, "tasks", id=child)) == (0, 0)


def test_task_with_a_checkpoint_is_not_deleted(api: Api, user: Caller, agent: PlayedAgent) -> None:
    keep(api, 1)
    id = generic(user)
    api.tick()
    (order,) = agent.poll()
    agent.poll()
    report = {
        "uuid": str(api.ctx.random.uuid()), "taskId": id,
        "resources": {"state": "1"}, "metadata": {"steps_completed": 1},
        "state": "STATE_COMPLETED",
    }  # fmt: skip
    api.with_token(order["spec"]["session_token"]).post(f"{V}/checkpoints", report)
    agent.poll("terminated", exit_code=0)
    later(api, 2)
    assert (count(api, "tasks", id=id), count(api, "checkpoints", task_id=id)) == (1, 1)


def test_expired_tasks_are_deleted_in_parts(
    api: Api, user: Caller, agent: PlayedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "TASKS_AT_ONCE", 2)
    monkeypatch.setattr(lifecycle, "LINES_AT_ONCE", 3)
    keep(api, 1)
    for _ in range(3):
        generic(user)
        run_to_its_end(api, agent)
    time = api.ctx.now() + timedelta(days=2)
    api.ctx.now = lambda: time
    looks = 0
    while lifecycle.delete_expired_tasks(api.ctx):
        looks += 1
        assert count(api, "tasks") >= 1
    assert looks > 2, "logs and tasks go in parts"
    assert (count(api, "tasks"), count(api, "task_logs")) == (0, 0)


def test_failed_deletion_does_not_stop_scheduling(
    api: Api,
    user: Caller,
    agent: PlayedAgent,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise QueryFailed("57014", "canceling statement due to statement timeout")

    monkeypatch.setattr(ended_tasks, "past", fail)
    keep(api, 1)
    generic(user)
    api.tick()
    assert len(agent.poll()) == 1
    assert "a tick could not delete tasks" in caplog.text


def test_queued_tasks_start_before_deletions(
    api: Api, user: Caller, agent: PlayedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DatabaseDown("the database does not answer")

    monkeypatch.setattr(ended_tasks, "past", fail)
    keep(api, 1)
    generic(user)
    with pytest.raises(DatabaseDown):
        api.tick()
    assert len(agent.poll()) == 1
