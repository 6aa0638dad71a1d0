"""Files that cannot be deleted: the deletion ends with the reason, and is tried again when it is asked for again."""

from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

import pytest
from det_controlplane.db.cluster import outbox
from det_controlplane.db.people import ownership
from det_controlplane.db.trials import trials
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import deletion as experiment_deletion
from det_controlplane.services.experiments import live
from det_controlplane.services.maintenance import deletion
from sqlalchemy import text

from tests.support.api import Api, Caller, create_ended, report_checkpoint

_WAITING = text(
    "SELECT id FROM tasks WHERE kind = 'CHECKPOINT_GC' AND ended_at IS NULL ORDER BY started_at, id"
)
_SPECS = text(
    "SELECT config->'_files'->0->'content' FROM tasks WHERE kind = 'CHECKPOINT_GC' AND ended_at IS NULL"
)
_LATER = text("UPDATE outbox SET due_at = due_at + interval '1 hour'")
_HASTENED = text("SELECT payload FROM outbox WHERE due_at <= :now AND kind = 'delete_experiment'")
_PAYLOAD = text("SELECT payload FROM outbox WHERE kind = 'delete_experiment'")
_PROMISED = text("SELECT count(*) FROM outbox WHERE kind <> 'webhook'")


def collections(api: Api) -> list[str]:
    """Return the tasks that wait to delete files."""
    with api.ctx.db.autocommit() as tx:
        return list(tx.execute(_WAITING).scalars())


def settle(api: Api) -> None:
    for _ in range(3):
        api.retry_deletions()


def end(api: Api) -> str:
    """End the one task that deletes files."""
    settle(api)
    (task_id,) = collections(api)
    with api.ctx.db.begin() as tx:
        trials.end_task(tx, task_id, api.ctx.now())
    settle(api)
    return task_id


def clear(user: Caller, checkpoint: str) -> None:
    body = {"uuid": checkpoint, "resources": {"resources": {}}}
    user.done("PATCH", "/api/v1/checkpoints", {"checkpoints": [body]})


def specs(api: Api) -> list[dict[str, Any]]:
    """Return the work of the tasks that wait to delete files."""
    return [row[0] for row in api.ctx.db.read(_SPECS)]


def in_project(user: Caller, project: int, **config: Any) -> int:
    """Create an ended experiment in a project."""
    experiment_id = create_ended(user, **config)
    user.post(f"/api/v1/experiments/{experiment_id}/move", {"destinationProjectId": project})
    return experiment_id


def promised(api: Api) -> int:
    return int(api.ctx.db.read(_PROMISED)[0][0])


@pytest.fixture
def workspace(user: Caller) -> int:
    return int(user.post("/api/v1/workspaces", {"name": "vision"})["workspace"]["id"])


@pytest.fixture
def project(user: Caller, workspace: int) -> int:
    path = f"/api/v1/workspaces/{workspace}/projects"
    return int(user.post(path, {"name": "cats"})["project"]["id"])


@pytest.fixture
def experiment_id(api: Api, user: Caller, project: int) -> int:
    new_experiment_id = create_ended(user)
    user.post(f"/api/v1/experiments/{new_experiment_id}/move", {"destinationProjectId": project})
    api.tick()
    return new_experiment_id


@pytest.fixture
def checkpoint(user: Caller, experiment_id: int) -> str:
    return report_checkpoint(user, experiment_id)


def test_second_deletion_deletes_the_experiment(
    api: Api, user: Caller, experiment_id: int, checkpoint: str
) -> None:
    path = f"/api/v1/experiments/{experiment_id}"
    user.done("DELETE", path)
    end(api)
    assert user.get(path)["experiment"]["state"] == "STATE_DELETE_FAILED"
    assert (promised(api), collections(api)) == (0, [])
    user.done("DELETE", path)
    settle(api)
    clear(user, checkpoint)
    end(api)
    assert user.ask("GET", path).status == 404


@pytest.mark.parametrize("kind", ["project", "workspace"])
def test_failed_deletion_of_a_project_has_a_reason_and_can_be_repeated(
    api: Api,
    user: Caller,
    workspace: int,
    project: int,
    experiment_id: int,
    checkpoint: str,
    kind: str,
) -> None:
    path = f"/api/v1/{kind}s/{project if kind == 'project' else workspace}"
    assert user.done("DELETE", path) == {"completed": False}
    task_id = end(api)
    task = user.get(path)[kind]
    assert task["state"] == "WORKSPACE_STATE_DELETE_FAILED"
    for part in (f"experiment {experiment_id}", f"'det task logs {task_id}'", "again"):
        assert part in task["errorMessage"]
    assert (promised(api), collections(api)) == (0, []), "nothing goes on by itself"
    assert user.done("DELETE", path) == {"completed": False}
    task = user.get(path)[kind]
    assert (task["state"], task["errorMessage"]) == ("WORKSPACE_STATE_DELETING", "")
    settle(api)
    clear(user, checkpoint)
    end(api)
    assert user.ask("GET", path).status == 404
    assert promised(api) == 0


def test_deleting_a_project_retries_failed_experiment_deletions(
    api: Api, user: Caller, project: int, experiment_id: int, checkpoint: str
) -> None:
    user.done("DELETE", f"/api/v1/experiments/{experiment_id}")
    end(api)
    user.done("DELETE", f"/api/v1/projects/{project}")
    settle(api)
    clear(user, checkpoint)
    end(api)
    assert user.ask("GET", f"/api/v1/projects/{project}").status == 404


def test_project_reports_a_failure_after_deleting_other_experiments(
    api: Api, user: Caller, project: int, experiment_id: int, checkpoint: str
) -> None:
    others = [in_project(user, project), in_project(user, project)]
    user.done("DELETE", f"/api/v1/projects/{project}")
    task_id = end(api)
    for other in others:
        assert user.ask("GET", f"/api/v1/experiments/{other}").status == 404
    stored_project = user.get(f"/api/v1/projects/{project}")["project"]
    assert stored_project["state"] == "WORKSPACE_STATE_DELETE_FAILED"
    assert f"'det task logs {task_id}'" in stored_project["errorMessage"]
    assert user.ask("GET", f"/api/v1/tasks/{task_id}").status == 200, "its logs say why"


def test_logs_of_a_failed_shared_task_remain(
    api: Api, user: Caller, project: int, experiment_id: int
) -> None:
    last = in_project(user, project)
    report_checkpoint(user, last)
    user.done("DELETE", f"/api/v1/projects/{project}")
    task_id = end(api)
    assert user.ask("GET", f"/api/v1/experiments/{experiment_id}").status == 404, (
        "its task was shared"
    )
    assert user.ask("GET", f"/api/v1/tasks/{task_id}").status == 200


def test_one_task_deletes_the_files_of_many_experiments(
    api: Api, user: Caller, project: int, experiment_id: int, checkpoint: str
) -> None:
    other = in_project(user, project)
    checkpoints = {checkpoint, report_checkpoint(user, other)}
    user.done("DELETE", f"/api/v1/projects/{project}")
    settle(api)
    stored_project = user.get(f"/api/v1/projects/{project}")["project"]
    assert stored_project["errorMessage"] == "2 experiments are being deleted"
    (spec,) = specs(api)
    assert set(spec["checkpoints"]) == checkpoints
    assert set(spec["experiment_ids"]) == {experiment_id, other}
    for uuid in checkpoints:
        clear(user, uuid)
    end(api)
    assert user.ask("GET", f"/api/v1/projects/{project}").status == 404
    assert promised(api) == 0


def test_shared_task_reports_only_checkpoints_of_its_owner(
    api: Api, admin: Caller, user: Caller, project: int, checkpoint: str
) -> None:
    second = report_checkpoint(user, in_project(user, project))
    checkpoint_uuid = report_checkpoint(user, create_ended(user))
    experiment_of_admin = create_ended(admin)
    of_admin = report_checkpoint(admin, experiment_of_admin)
    user.done("DELETE", f"/api/v1/projects/{project}")
    admin.done("DELETE", f"/api/v1/experiments/{experiment_of_admin}")
    settle(api)
    reportable = {
        frozenset(
            uuid
            for uuid in (checkpoint, second, checkpoint_uuid, of_admin)
            if ownership.is_collected_by(api.ctx.db, UUID(uuid), task_id)
        )
        for task_id in collections(api)
    }
    assert reportable == {frozenset({checkpoint, second}), frozenset({of_admin})}


def test_experiments_with_other_mounts_or_images_do_not_share_a_task(
    api: Api, user: Caller, project: int, experiment_id: int
) -> None:
    image = {"environment": {"image": "other:1"}}
    other = in_project(user, project, **image)
    same = in_project(user, project, **image)
    user.done("DELETE", f"/api/v1/projects/{project}")
    settle(api)
    shared = sorted(spec["experiment_ids"] for spec in specs(api))
    assert shared == [[experiment_id], [other, same]]


def test_end_of_a_task_triggers_only_its_waiting_deletions(
    api: Api, user: Caller, project: int, experiment_id: int
) -> None:
    user.done("DELETE", f"/api/v1/experiments/{experiment_id}")
    settle(api)
    (task_id,) = collections(api)
    user.done("DELETE", f"/api/v1/experiments/{create_ended(user)}")
    settle(api)
    with api.ctx.db.begin() as tx:
        tx.execute(_LATER)
        assert outbox.retry_deletions_of_task(tx, task_id, api.ctx.now())
        waiting = tx.execute(_HASTENED, {"now": api.ctx.now()}).scalars().all()
    assert [payload["experiment_ids"] for payload in waiting] == [[experiment_id]]


def test_repeated_deletion_is_not_ended_by_an_earlier_one(
    api: Api, user: Caller, experiment_id: int, checkpoint: str
) -> None:
    path = f"/api/v1/experiments/{experiment_id}"
    user.done("DELETE", path)
    settle(api)
    (task_id,) = collections(api)
    with api.ctx.db.begin() as tx:
        earlier = tx.execute(_PAYLOAD).scalar_one()
        trials.end_task(tx, task_id, api.ctx.now())
    experiment_deletion.experiments_effect(api.ctx, earlier)
    assert user.get(path)["experiment"]["state"] == "STATE_DELETE_FAILED"
    user.done("DELETE", path)
    experiment_deletion.experiments_effect(api.ctx, earlier)
    assert user.get(path)["experiment"]["state"] == "STATE_DELETING"


def test_experiment_moved_during_the_deletion_of_its_project_stays(
    api: Api, user: Caller, project: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = create_ended(user), create_ended(user)
    for id in (first, last):
        user.post(f"/api/v1/experiments/{id}/move", {"destinationProjectId": project})
    user.done("DELETE", f"/api/v1/projects/{project}")
    lock = live.locked_experiment

    def lock_after_a_move(ctx: Context, id: int) -> AbstractContextManager[live.LiveExperiment]:
        if id == first:
            monkeypatch.undo()
            user.post(f"/api/v1/experiments/{last}/move", {"destinationProjectId": 1})
        return lock(ctx, id)

    monkeypatch.setattr(live, "locked_experiment", lock_after_a_move)
    settle(api)
    assert len(collections(api)) == 1
    assert user.get(f"/api/v1/experiments/{last}")["experiment"]["state"] == "STATE_CANCELED"


def test_rejects_continuing_experiments_in_a_project_being_deleted(
    api: Api, user: Caller, project: int
) -> None:
    ended_id = create_ended(user)
    user.post(f"/api/v1/experiments/{ended_id}/move", {"destinationProjectId": project})
    user.done("DELETE", f"/api/v1/projects/{project}")
    response = user.ask("POST", "/api/v1/experiments/continue", {"id": ended_id})
    assert (response.status, "being deleted" in response.error) == (400, True), response
    settle(api)
    response = user.ask("POST", f"/api/v1/experiments/{ended_id}/move", {"destinationProjectId": 1})
    assert (response.status, "being deleted" in response.error) == (400, True), response


def test_workspace_deletion_waits_for_a_repeated_project_deletion(
    api: Api,
    user: Caller,
    workspace: int,
    project: int,
    experiment_id: int,
    checkpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    user.done("DELETE", f"/api/v1/workspaces/{workspace}")
    settle(api)
    (task_id,) = collections(api)
    with api.ctx.db.begin() as tx:
        trials.end_task(tx, task_id, api.ctx.now())
    delete = deletion.project_effect

    def delete_and_begin_again(ctx: Context, payload: dict[str, Any]) -> None:
        delete(ctx, payload)
        if user.get(f"/api/v1/projects/{project}")["project"]["errorMessage"]:
            monkeypatch.undo()
            user.done("DELETE", f"/api/v1/projects/{project}")

    monkeypatch.setattr(deletion, "project_effect", delete_and_begin_again)
    settle(api)
    stored_workspace = user.get(f"/api/v1/workspaces/{workspace}")["workspace"]
    assert stored_workspace["state"] == "WORKSPACE_STATE_DELETING"
    assert [record.message for record in caplog.records if record.exc_info] == []
    clear(user, checkpoint)
    end(api)
    assert user.ask("GET", f"/api/v1/workspaces/{workspace}").status == 404
