"""Which workspaces, projects, users, groups and templates a listing shows, and in which order."""

from typing import Any

import pytest

from tests.support.api import Api, Caller, config_of


@pytest.fixture(scope="module")
def people(shared_api: Api) -> dict[str, Caller]:
    """Three workspaces with three projects in the second, a group, two templates and another user."""
    admin, user = shared_api.signed_in("admin"), shared_api.signed_in("determined")
    response = admin.post("/api/v1/users", {"user": {"username": "ada", "displayName": "Lovelace"}})
    admin.post("/api/v1/groups", {"name": "readers", "addUsers": [response["user"]["id"]]})
    admin.post("/api/v1/groups", {"name": "writers"})
    for owner, name in ((user, "Vision"), (admin, "vis_ion"), (user, "sound")):
        owner.post("/api/v1/workspaces", {"name": name})
    for owner, name in ((user, "cats"), (admin, "Birds"), (user, "dogs")):
        owner.post("/api/v1/workspaces/3/projects", {"name": name, "description": name[::-1]})
    user.post("/api/v1/workspaces/2/archive")
    user.post("/api/v1/projects/4/archive")
    user.post("/api/v1/templates/small", {"config": {"max_restarts": 1}})
    user.post("/api/v1/templates/large", {"config": {"max_restarts": 2}, "workspaceId": 3})
    user.post("/api/v1/experiments", {"config": config_of(), "projectId": 2, "activate": False})
    return {"admin": admin, "user": user}


def names(answer: Any, kind: str) -> list[str]:
    return [row.get("name") or row.get("username") for row in answer[kind]]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"name": "VIS"}, ["Vision", "vis_ion"]),
        ({"name": "S_I"}, ["vis_ion"]),
        ({"name": "%s"}, []),
        ({"nameCaseSensitive": "Vis"}, ["Vision"]),
        ({"nameCaseSensitive": "s_i"}, ["vis_ion"]),
        ({"archived": "true"}, ["Vision"]),
        ({"pinned": "true"}, ["Vision", "sound"]),
        ({"users": ["determined"]}, ["Vision", "sound"]),
        ({"userIds": [1], "name": "vis"}, ["vis_ion"]),
        ({"sortBy": "SORT_BY_NAME"}, ["sound", "Uncategorized", "vis_ion", "Vision"]),
        ({"orderBy": "ORDER_BY_DESC"}, ["sound", "vis_ion", "Vision", "Uncategorized"]),
        ({"offset": 1, "limit": 2}, ["Vision", "vis_ion"]),
        ({"offset": -2}, ["vis_ion", "sound"]),
        ({"offset": -3, "limit": 1}, ["Vision"]),
        ({"limit": -1, "offset": 3}, ["sound"]),
        ({"limit": -2}, []),
    ],
)
def test_lists_workspaces(
    people: dict[str, Caller], asked: dict[str, Any], expected: list[str]
) -> None:
    response = people["user"].get("/api/v1/workspaces", **asked)
    assert names(response, "workspaces") == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["cats", "Birds", "dogs"]),
        ({"archived": "false"}, ["cats", "Birds"]),
        ({"users": ["admin"]}, ["Birds"]),
        ({"userIds": [2], "name": "O"}, ["dogs"]),
        ({"sortBy": "SORT_BY_NAME"}, ["Birds", "cats", "dogs"]),
        ({"sortBy": "SORT_BY_DESCRIPTION", "orderBy": "ORDER_BY_DESC"}, ["cats", "dogs", "Birds"]),
        ({"sortBy": "SORT_BY_CREATION_TIME", "offset": 2}, ["dogs"]),
        ({"sortBy": "SORT_BY_LAST_EXPERIMENT_START_TIME"}, ["cats", "Birds", "dogs"]),
    ],
)
def test_lists_projects(
    people: dict[str, Caller], asked: dict[str, Any], expected: list[str]
) -> None:
    response = people["user"].get("/api/v1/workspaces/3/projects", **asked)
    assert names(response, "projects") == expected
    assert response["pagination"]["total"] >= len(expected)


def test_projects_of_all_workspaces_have_experiment_counts(people: dict[str, Caller]) -> None:
    projects = people["user"].get("/api/v1/workspaces/0/projects")["projects"]
    assert [
        (p["name"], p["workspaceName"], p["numExperiments"], p["archived"]) for p in projects
    ] == [
        ("Uncategorized", "Uncategorized", 0, False),
        ("cats", "vis_ion", 1, False),
        ("Birds", "vis_ion", 0, False),
        ("dogs", "vis_ion", 0, True),
    ]
    assert projects[1]["lastExperimentStartedAt"].endswith("Z")
    assert projects[0]["lastExperimentStartedAt"] is None


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"name": "LOVE"}, ["ada"]),
        ({"admin": "true"}, ["admin"]),
        ({"active": "false"}, []),
        ({"sortBy": "SORT_BY_NAME"}, ["ada", "admin", "determined"]),
        ({"sortBy": "SORT_BY_DISPLAY_NAME", "orderBy": "ORDER_BY_DESC"}, ["ada"]),
        ({"sortBy": "SORT_BY_MODIFIED_TIME", "orderBy": "ORDER_BY_DESC", "limit": 1}, ["ada"]),
    ],
)
def test_lists_users(people: dict[str, Caller], asked: dict[str, Any], expected: list[str]) -> None:
    response = people["user"].get("/api/v1/users", **asked)
    assert names(response, "users")[: len(expected)] == expected
    assert response["pagination"]["total"] >= len(expected)


def test_lists_groups_by_name_and_member(people: dict[str, Caller]) -> None:
    def shown(**query: object) -> list[tuple[str, int]]:
        groups = people["user"].post("/api/v1/groups/search", query)["groups"]
        return [(g["group"]["name"], g["numMembers"]) for g in groups]

    assert shown() == [("readers", 1), ("writers", 0)]
    assert shown(name="WRIT") == [("writers", 0)]
    assert shown(userId=3) == [("readers", 1)]
    assert shown(userId=3, name="writ") == []
    assert shown(limit=1, offset=-1) == [("writers", 0)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["large", "small"]),
        ({"orderBy": "ORDER_BY_DESC"}, ["small", "large"]),
        ({"name": "SMA"}, ["small"]),
        ({"workspaceIds": [3, 4]}, ["large"]),
    ],
)
def test_lists_templates(
    people: dict[str, Caller], asked: dict[str, Any], expected: list[str]
) -> None:
    assert names(people["user"].get("/api/v1/templates", **asked), "templates") == expected


def test_error_for_unknown_order_lists_existing_ones(
    people: dict[str, Caller],
) -> None:
    response = people["user"].ask("GET", "/api/v1/templates", query={"sortBy": ["SORT_BY_MOOD"]})
    assert response.status == 400
    assert "SORT_BY_NAME" in response.error
