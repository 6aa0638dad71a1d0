"""The stream of changes of projects, models and model versions."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from det_controlplane.api.http import Request, Stream
from det_controlplane.db.people import updates as rows

from tests.support.api import Api, Caller, create_ended, report_checkpoint
from tests.support.house import House, assignment, id_of
from tests.support.played_agent import task_of

Look = Callable[[], list[dict[str, Any]]]
ALL: dict[str, dict[str, Any]] = {"projects": {}, "models": {}, "modelversions": {}}


def subscribed(caller: Caller, subscribe: dict[str, Any], **known_ids: str) -> Look:
    """Return a function that returns the messages of the next poll."""
    body = {"sync_id": "1", "known": known_ids, "subscribe": subscribe}
    headers = {"authorization": f"Bearer {caller.token}"}
    request = Request("GET", "/stream", headers=headers, body=json.dumps(body).encode())
    stream = caller.app.handle(request)
    assert isinstance(stream, Stream)
    cursor: Any = None

    def look() -> list[dict[str, Any]]:
        nonlocal cursor
        batch = stream.fetch(cursor)
        assert not batch.done
        cursor = batch.cursor
        return [json.loads(line) for line in batch.lines]

    return look


def named(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return the kind and name of each message, without begin and end."""
    changes = [next(iter(m.items())) for m in messages if "sync_id" not in m]
    return [(kind, value["name"] if isinstance(value, dict) else value) for kind, value in changes]


def project(user: Caller, name: str) -> int:
    """Create a project in a new workspace."""
    workspace = user.post("/api/v1/workspaces", {"name": f"{name} only"})["workspace"]["id"]
    response = user.post(f"/api/v1/workspaces/{workspace}/projects", {"name": name})
    return int(response["project"]["id"])


def test_stream_first_sends_all_objects_between_two_sync_messages(user: Caller) -> None:
    project(user, "cats")
    first, *changes, last = subscribed(user, {"projects": {}})()
    assert first == {"sync_id": "1", "complete": False}
    assert last == {"sync_id": "1", "complete": True}
    assert named(changes) == [("project", "Uncategorized"), ("project", "cats")]
    cats = changes[1]["project"]
    assert cats["name"] == "cats"


# Determined's client makes an object of each message by its names, and fails for other names.
_FIELDS = {
    "project": "archived created_at description id immutable key name notes seq state user_id workspace_id",
    "model": (
        "archived creation_time description id labels last_updated_time metadata name notes seq user_id workspace_id"
    ),
    "modelversion": (
        "checkpoint_uuid comment creation_time id labels last_updated_time metadata model_id name notes seq user_id"
        " version workspace_id"
    ),
}  # fmt: skip


def test_messages_have_the_fields_that_determineds_client_accepts(user: Caller) -> None:
    user.post("/api/v1/models", {"name": "resnet"})
    uuid = report_checkpoint(user, create_ended(user))
    user.post("/api/v1/models/resnet/versions", {"checkpointUuid": uuid})
    rows = [next(iter(m.items())) for m in subscribed(user, ALL)() if "sync_id" not in m]
    assert {kind: " ".join(sorted(value)) for kind, value in rows} == _FIELDS


def test_stream_then_sends_only_changes(user: Caller) -> None:
    look = subscribed(user, ALL)
    look()
    assert look() == []
    cats = project(user, "cats")
    assert named(look()) == [("project", "cats")]
    user.done("PATCH", f"/api/v1/projects/{cats}", {"description": "meow"})
    (change,) = look()
    assert change["project"]["description"] == "meow"
    user.post("/api/v1/models", {"name": "resnet"})
    uuid = report_checkpoint(user, create_ended(user))
    assert named(look()) == [("model", "resnet")]
    user.post("/api/v1/models/resnet/versions", {"checkpointUuid": uuid})
    messages = look()
    assert [m["modelversion"]["checkpoint_uuid"] for m in messages if "modelversion" in m] == [uuid]
    user.done("DELETE", "/api/v1/models/resnet")
    deletions = dict(named(look()))
    assert set(deletions) == {"models_deleted", "modelversions_deleted"}
    assert look() == []


def test_reconnecting_client_receives_deletions(user: Caller) -> None:
    cats, dogs = project(user, "cats"), project(user, "dogs")
    user.done("DELETE", f"/api/v1/projects/{cats}")
    messages = subscribed(user, {"projects": {"project_ids": [dogs]}}, projects=f"1-{dogs}")()
    assert named(messages) == [("projects_deleted", f"1-{cats}"), ("project", "dogs")]


def test_subscription_selects_projects_or_workspaces(user: Caller) -> None:
    cats = project(user, "cats")
    messages = subscribed(
        user, {"projects": {"project_ids": [cats]}, "models": {"model_ids": [99]}}
    )()
    assert named(messages) == [("project", "cats")]
    messages = subscribed(user, {"projects": {"workspace_ids": [1]}})()
    assert named(messages) == [("project", "Uncategorized")]
    assert named(subscribed(user, {"projects": {"workspace_ids": [99]}})()) == []


def version_of(house: House, name: str, workspace: int, project_id: int) -> None:
    """Make a model with a version in a workspace."""
    new = {"name": name, "workspaceId": workspace}
    house.admin.post("/api/v1/models", new)
    experiment = house.experiment(house.admin, project_id)
    house.admin.post(f"/api/v1/experiments/{experiment}/kill")
    checkpoint = report_checkpoint(house.admin, experiment)
    house.admin.post(
        f"/api/v1/models/{name}/versions", {"checkpointUuid": checkpoint, "name": f"{name} 1"}
    )


def test_stream_omits_invisible_objects_and_reports_lost_ones_as_deleted(house: House) -> None:
    version_of(house, "of red", house.red, house.red_project)
    version_of(house, "of blue", house.blue, house.blue_project)
    viewer = house.person("viewer", "Viewer", house.red)
    look = subscribed(viewer, ALL)
    messages = look()
    assert [m["project"]["id"] for m in messages if "project" in m] == [house.red_project]
    assert [m["model"]["name"] for m in messages if "model" in m] == ["of red"]
    assert [m["modelversion"]["name"] for m in messages if "modelversion" in m] == ["of red 1"]
    house.admin.post(
        "/api/v1/roles/remove-assignments", assignment("Viewer", house.red, user=id_of(viewer))
    )
    kinds = {kind for kind, _ in named(look())}
    assert kinds == {"projects_deleted", "models_deleted", "modelversions_deleted"}


def test_invisible_ids_are_reported_as_deleted_like_missing_ids(house: House) -> None:
    viewer = house.person("viewer", "Viewer", house.red)
    project_ids = f"{house.blue_project},777"
    (message,) = [
        m
        for m in subscribed(viewer, {"projects": {}}, projects=project_ids)()
        if "projects_deleted" in m
    ]
    assert message["projects_deleted"] == project_ids


def test_project_moved_during_the_read_is_not_sent(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its new workspace is one that the caller does not see."""
    viewer = house.person("viewer", "Viewer", house.red)
    find, hidden = rows.numbers, house.workspace("hidden")

    def moved(tx: Any, kind: str, *arguments: Any) -> dict[int, int]:
        matching_rows = find(tx, kind, *arguments)
        body = {"destinationWorkspaceId": hidden}
        house.admin.post(f"/api/v1/projects/{house.red_project}/move", body)
        return matching_rows

    monkeypatch.setattr(rows, "numbers", moved)
    assert named(subscribed(viewer, {"projects": {}})()) == []


def test_rejects_stream_with_a_narrow_token(api: Api, user: Caller) -> None:
    task, _ = task_of(api, user, environment={"det_token": "task"})
    assert task.ask("GET", "/stream", {"sync_id": "1", "subscribe": ALL}).status == 403


def test_stream_ends_with_its_session(user: Caller) -> None:
    look = subscribed(user, ALL)
    look()
    user.post("/api/v1/auth/logout")
    with pytest.raises(Exception, match="sign in"):
        look()


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ({"known": {"projects": "x"}, "subscribe": {"projects": {}}}, "known.projects"),
        ({"subscribe": {"projects": {"project_ids": ["x"]}}}, "subscribe.projects.project_ids"),
        ({"subscribe": {"models": {"user_ids": [10**12]}}}, "subscribe.models.user_ids"),
        ({"subscribe": {"models": []}}, "models"),
        ({"subscribe": []}, "subscribe"),
        ({"sync_id": {}}, "syncId"),
    ],
)
def test_error_names_the_wrong_field_of_a_subscription(
    reader: Caller, body: dict[str, Any], cause: str
) -> None:
    response = reader.ask("GET", "/stream", body)
    assert response.status == 400
    assert cause in response.error
