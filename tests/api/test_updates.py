"""The stream of changes of projects, models and model versions."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from det_controlplane.api.http import Request, Stream
from det_controlplane.core.config.cluster import Authz

from tests.support.api import Api, Caller, create_ended, report_checkpoint
from tests.support.house import House

Look = Callable[[], list[dict[str, Any]]]
ALL: dict[str, dict[str, Any]] = {"projects": {}, "models": {}, "modelversions": {}}


def subscribed(caller: Caller, subscribe: dict[str, Any], **known: str) -> Look:
    """Return a function that tells the messages of the next look."""
    body = {"sync_id": "1", "known": known, "subscribe": subscribe}
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
    """Return the kind and name of what was told, without its beginning and end."""
    told = [next(iter(m.items())) for m in messages if "sync_id" not in m]
    return [(kind, value["name"] if isinstance(value, dict) else value) for kind, value in told]


def project(user: Caller, name: str) -> int:
    """Make a project in a workspace of its own."""
    workspace = user.post("/api/v1/workspaces", {"name": f"{name} only"})["workspace"]["id"]
    made = user.post(f"/api/v1/workspaces/{workspace}/projects", {"name": name})
    return int(made["project"]["id"])


def test_everything_is_told_first_between_two_marks(user: Caller) -> None:
    project(user, "cats")
    first, *told, last = subscribed(user, {"projects": {}})()
    assert first == {"sync_id": "1", "complete": False}
    assert last == {"sync_id": "1", "complete": True}
    assert named(told) == [("project", "Uncategorized"), ("project", "cats")]
    cats = told[1]["project"]
    assert {"id", "key", "seq", "workspace_id", "archived", "created_at", "state"} <= set(cats)


def test_then_only_what_changes(user: Caller) -> None:
    look = subscribed(user, ALL)
    look()
    assert look() == []
    cats = project(user, "cats")
    assert named(look()) == [("project", "cats")]
    user.done("PATCH", f"/api/v1/projects/{cats}", {"description": "meow"})
    (changed,) = look()
    assert changed["project"]["description"] == "meow"
    user.post("/api/v1/models", {"name": "resnet"})
    uuid = report_checkpoint(user, create_ended(user))
    assert named(look()) == [("model", "resnet")]
    user.post("/api/v1/models/resnet/versions", {"checkpointUuid": uuid})
    told = look()
    assert [m["modelversion"]["checkpoint_uuid"] for m in told if "modelversion" in m] == [uuid]
    user.done("DELETE", "/api/v1/models/resnet")
    deleted = dict(named(look()))
    assert set(deleted) == {"models_deleted", "modelversions_deleted"}
    assert look() == []


def test_a_client_that_comes_back_hears_what_is_gone(user: Caller) -> None:
    cats, dogs = project(user, "cats"), project(user, "dogs")
    user.done("DELETE", f"/api/v1/projects/{cats}")
    told = subscribed(user, {"projects": {"project_ids": [dogs]}}, projects=f"1-{dogs}")()
    assert named(told) == [("projects_deleted", f"1-{cats}"), ("project", "dogs")]


def test_a_subscription_names_projects_or_workspaces(user: Caller) -> None:
    cats = project(user, "cats")
    told = subscribed(user, {"projects": {"project_ids": [cats]}, "models": {"model_ids": [99]}})()
    assert named(told) == [("project", "cats")]
    told = subscribed(user, {"projects": {"workspace_ids": [1]}})()
    assert named(told) == [("project", "Uncategorized")]
    assert named(subscribed(user, {"projects": {"workspace_ids": [99]}})()) == []


def test_what_a_role_does_not_show_is_not_told_and_leaves_with_the_role(
    api: Api, admin: Caller
) -> None:
    api.ctx.config = replace(api.ctx.config, authz=Authz.RBAC)
    house = House(api, admin)
    viewer = house.person("viewer", "Viewer", house.red)
    look = subscribed(viewer, {"projects": {}})
    ids = [m["project"]["id"] for m in look() if "project" in m]
    assert ids == [house.red_project]
    assert house.blue_project not in ids


def test_a_session_that_has_ended_ends_the_stream(user: Caller) -> None:
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
def test_a_subscription_with_a_mistake_is_refused_by_name(
    reader: Caller, body: dict[str, Any], cause: str
) -> None:
    told = reader.ask("GET", "/stream", body)
    assert told.status == 400
    assert cause in told.error
