"""Routes with checks in the use case are called with each role, and so are open routes.

A new route fails the tests here until it has a row.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from det_controlplane.api import routes
from det_controlplane.api.router import Access, Route
from det_controlplane.core.people.permissions import NeedScope, Rule, TaskRule
from det_controlplane.core.people.roles import ROLES

from tests.api.test_route_rights import GIVEN, GUARDED, Scene, Things, rule_of, scene_in
from tests.support.api import POOLS, Api, ApiResponse, config_of
from tests.support.house import assignment, id_of
from tests.support.inbox import COMPLETED, Inbox, make_webhook

V = "/api/v1"
_NEXT = count(1)
_EDITORS = {"EditorRestricted", "Editor", "WorkspaceAdmin", "ClusterAdmin"}
_ADMINS = {"WorkspaceAdmin", "ClusterAdmin"}
_CHIEF = {"ClusterAdmin"}
_ANYWHERE = {*GIVEN, "ClusterAdmin"}
_EVERYWHERE = {"AgentOperator", "ClusterAdmin"}  # a user with rights in all workspaces


@dataclass(frozen=True)
class Row:
    """A request about a place, and the roles there that it takes; all others are refused it."""

    may: set[str]
    path: str
    body: Callable[["Place"], Any] = lambda place: None
    # Every user may call these lists, but only the higher roles see objects of the workspace.
    tells: Callable[["Place", ApiResponse], bool] | None = None


@dataclass(frozen=True)
class Place:
    """Hold the objects of a workspace that the requests of one role are about."""

    things: Things
    names: dict[str, Any]

    @property
    def workspace(self) -> int:
        return self.things.workspace


def place_in(scene: Scene, things: Things) -> Place:
    """Create objects that requests could delete: a signed-in user, a webhook, a budget and others."""
    house, mark = scene.house, f"x{next(_NEXT)}"
    admin, workspace = house.admin, things.workspace
    person, editor = house.person(mark), house.person(f"{mark}-editor", "Editor", workspace)
    group = admin.post(f"{V}/groups", {"name": mark})["group"]["groupId"]
    house.assign("Viewer", workspace, group=group)
    project = int(things.names["projectId"])
    budget = {"scope": "experiment", "of": str(house.experiment(admin, project)), "limitUsd": "5"}
    objects = {
        "new": mark, "person": id_of(person), "editor": id_of(editor), "group": group,
        "session": admin.get(f"{V}/users/{id_of(person)}/sessions")["sessions"][0]["id"],
        "hook": make_webhook(admin, name=mark, workspaceId=workspace)["id"],
        "budgetId": admin.done("PUT", f"{V}/budgets", budget)["budget"]["id"],
    }  # fmt: skip
    return Place(things, {**things.names, **objects})


def _config(place: Place) -> dict[str, Any]:
    return {"config": config_of(), "activate": False, "projectId": int(place.names["projectId"])}


def _viewer(place: Place) -> dict[str, Any]:
    return assignment("Viewer", place.workspace, user=place.names["person"])


def _editor(place: Place) -> dict[str, Any]:
    return assignment("Editor", place.workspace, user=place.names["editor"])


def _hook(place: Place) -> dict[str, Any]:
    return {
        "name": "new", "url": "https://example.com/hook", "webhookType": "WEBHOOK_TYPE_DEFAULT",
        "mode": "WEBHOOK_MODE_WORKSPACE", "workspaceId": place.workspace, "triggers": [COMPLETED],
    }  # fmt: skip


def _budgets_told(place: Place, response: ApiResponse) -> bool:
    return place.names["budgetId"] in [b["id"] for b in response.json()["budgets"]]


def _work_told(place: Place, response: ApiResponse) -> bool:
    return place.workspace in [row["workspaceId"] for row in response.json()["work"]]


def _roles_told(place: Place, response: ApiResponse) -> bool:
    scopes = re.findall(r'"scopeWorkspaceIds?": ?([\d\[\], ]+)', response.body.decode())
    return str(place.workspace) in re.findall(r"\d+", " ".join(scopes))


_BINDINGS = f"{V}/resource-pools/{POOLS[-1]}/workspace-bindings"


def _bound(place: Place) -> Any:
    return {"workspaceIds": [place.workspace]}


ROWS: dict[str, Row] = {
    "POST /task-logs": Row(
        _ADMINS, "/task-logs", lambda p: f'[{{"taskId": "{p.names["taskId"]}", "log": "x"}}]'.encode()
    ),
    "GET budgets": Row(_EDITORS | {"Viewer", "AgentOperator"}, f"{V}/budgets", tells=_budgets_told),
    "PUT budgets": Row(
        _CHIEF, f"{V}/budgets", lambda p: {"scope": "experiment", "of": p.names["experimentId"], "limitUsd": "5"}
    ),
    "DELETE budgets/{budgetId}": Row(_CHIEF, f"{V}/budgets/{{budgetId}}"),
    "POST experiments": Row(_EDITORS, f"{V}/experiments", _config),
    "PUT experiments/by-external-id/{externalExperimentId}": Row(
        _EDITORS, f"{V}/experiments/by-external-id/{{new}}", lambda p: {**_config(p), "unmanaged": True}
    ),
    "POST models": Row(
        _EDITORS, f"{V}/models", lambda p: {"name": p.names["new"], "workspaceId": p.workspace}
    ),
    "POST resource-pools/{resourcePoolName}/workspace-bindings": Row(_EVERYWHERE, _BINDINGS, _bound),
    "PUT resource-pools/{resourcePoolName}/workspace-bindings": Row(_EVERYWHERE, _BINDINGS, _bound),
    "POST roles/add-assignments": Row(_ADMINS, f"{V}/roles/add-assignments", _viewer),
    "POST roles/remove-assignments": Row(_ADMINS, f"{V}/roles/remove-assignments", _editor),
    "GET roles/search/by-group/{groupId}": Row(
        _EDITORS | {"Viewer"}, f"{V}/roles/search/by-group/{{group}}", tells=_roles_told
    ),
    "POST roles/search/by-ids": Row(
        _EDITORS | {"Viewer"}, f"{V}/roles/search/by-ids",
        lambda p: {"roleIds": [ROLES["Editor"].id]}, tells=_roles_told,
    ),
    "GET roles/search/by-user/{userId}": Row(
        _EDITORS | {"Viewer"}, f"{V}/roles/search/by-user/{{editor}}", tells=_roles_told
    ),
    "POST templates/{templateName}": Row(
        _EDITORS, f"{V}/templates/{{new}}", lambda p: {"config": {}, "workspaceId": p.workspace}
    ),
    "PUT templates/{templateName}": Row(_EDITORS, f"{V}/templates/{{templateName}}", lambda p: {"config": {}}),
    "PATCH users/assignments": Row(
        _CHIEF, f"{V}/users/assignments", lambda p: {"userIds": [p.names["person"]], "addGroups": [p.names["group"]]}
    ),
    "GET work": Row(_EDITORS | {"Viewer"}, f"{V}/work", tells=_work_told),
    "DELETE users/{userId}/sessions": Row(_CHIEF, f"{V}/users/{{person}}/sessions"),
    "GET users/{userId}/sessions": Row(_CHIEF, f"{V}/users/{{person}}/sessions"),
    "DELETE users/{userId}/sessions/{sessionId}": Row(_CHIEF, f"{V}/users/{{person}}/sessions/{{session}}"),
    "POST webhooks": Row(_EDITORS, f"{V}/webhooks", _hook),
    "DELETE webhooks/{id}": Row(_EDITORS, f"{V}/webhooks/{{hook}}"),
    "GET webhooks/{id}": Row(_EDITORS, f"{V}/webhooks/{{hook}}"),
    "PATCH webhooks/{id}": Row(_EDITORS, f"{V}/webhooks/{{hook}}", lambda p: {"url": "https://example.com/other"}),
    "GET webhooks/{id}/deliveries": Row(_EDITORS, f"{V}/webhooks/{{hook}}/deliveries"),
    "POST webhooks/{id}/test": Row(_EDITORS, f"{V}/webhooks/{{hook}}/test", lambda p: {}),
}  # fmt: skip

# Open routes that reveal no data of the cluster.
TOLD_TO_ALL = {
    "GET /", "GET /health", "GET /info", "GET /api/v1/master", "GET /api/v1/master/telemetry",
    "GET /api/v1/api.swagger.json", "GET /api/v1/openapi.json",
    "GET /api/v1/auth/oidc/providers", "GET /agents/v1/wheel", "GET /agents/v1/wheel/{name}",
}  # fmt: skip
# The request proves its caller, and has no effect without the proof.
PROVEN_BY_BODY = {
    "POST /api/v1/auth/login", "POST /api/v1/auth/pipeline", "POST /api/v1/auth/oidc/begin",
    "POST /api/v1/auth/oidc/finish",
    "POST /api/v1/auth/oidc/device/begin", "POST /api/v1/auth/oidc/device/finish", "POST /agents/v1/join",
}  # fmt: skip
# Routes of agents and of the relay, which checks proofs itself (tests/entry/test_relay.py).
OF_AGENTS = {"POST /agents/v1/poll", "POST /agents/v1/logs", "POST /agents/v1/reports"}
OF_TASKS = {
    f"{m} /proxy/{{service}}/{{path...}}" for m in ("GET", "POST", "PUT", "PATCH", "DELETE")
}


@pytest.fixture
def scene(api: Api) -> Iterator[Scene]:
    yield from scene_in(api)


def in_order() -> list[tuple[str, Row]]:
    """Return the rows of the table, with deleting requests last."""
    return sorted(ROWS.items(), key=lambda r: ("DELETE" in r[0], -r[0].count("/")))


def test_every_route_with_a_check_in_its_use_case_has_a_row() -> None:
    guarded_routes = {
        f"{r.method} {r.path.removeprefix(V + '/')}"
        for r in GUARDED
        if any(need.of is NeedScope.SERVICE for need in rule_of(r).needs)
    }
    assert guarded_routes == set(ROWS)


@pytest.mark.parametrize("role", [*GIVEN, "ClusterAdmin"])
def test_roles_permit_requests_only_in_their_workspace(scene: Scene, role: str) -> None:
    scene.house.api.ctx.courier = Inbox()
    caller = {**scene.callers, "ClusterAdmin": scene.house.admin}[role]
    places = [(place_in(scene, scene.there), _EVERYWHERE), (place_in(scene, scene.here), _ANYWHERE)]
    problems = []
    for name, row in in_order():
        for place, able in places:
            response = caller.ask(name.split()[0], row.path.format(**place.names), row.body(place))
            gets = response.status < 300
            if row.tells is not None:
                assert gets, name
                gets = row.tells(place, response)
            if gets != (role in row.may & able) or (
                not gets and response.status not in (200, 403, 404)
            ):
                problems.append(
                    f"{name} in {place.workspace}: {response.status} {response.body[:200]!r}"
                )
    assert problems == []


def test_rejects_tasks_and_agents(scene: Scene) -> None:
    """The task is of an administrator, in another workspace."""
    scene.house.api.ctx.courier = Inbox()
    place = place_in(scene, scene.here)
    for name, row in in_order():
        method, path = name.split()[0], row.path.format(**place.names)
        assert scene.agent.ask(method, path, row.body(place)).status == 401, name
        response = scene.foreign_task.ask(method, path, row.body(place))
        gets = response.status < 300 if row.tells is None else row.tells(place, response)
        assert not gets, f"{name}: {response.body!r}"
        if rule(name).task is TaskRule.NEVER:
            assert scene.task.ask(method, path, row.body(place)).status == 403, name


def rule(name: str) -> Rule:
    (route,) = (r for r in GUARDED if f"{r.method} {r.path.removeprefix(V + '/')}" == name)
    return rule_of(route)


def test_an_owner_sets_the_budget_of_an_experiment(scene: Scene) -> None:
    editor = scene.callers["Editor"]
    own = scene.house.experiment(editor, int(scene.here.names["projectId"]))
    budget = {"scope": "experiment", "of": str(own), "limitUsd": "5"}
    budget_id = editor.done("PUT", f"{V}/budgets", budget)["budget"]["id"]
    for role in ("Viewer", "EditorRestricted", "nothing"):
        other = scene.callers[role]
        assert other.ask("PUT", f"{V}/budgets", budget).status in (403, 404)
        assert other.ask("DELETE", f"{V}/budgets/{budget_id}").status in (403, 404)
    editor.done("DELETE", f"{V}/budgets/{budget_id}")


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


def test_routes_without_a_user_are_listed() -> None:
    open_to = {a: {named(r) for r in routes.every() if r.access is a} for a in Access}
    assert open_to[Access.PUBLIC] == TOLD_TO_ALL | PROVEN_BY_BODY | OF_TASKS
    assert open_to[Access.AGENT] | open_to[Access.AGENT_BY_HANDLER] == OF_AGENTS


def test_rejects_users_and_tasks_on_agent_routes(scene: Scene) -> None:
    callers = [*scene.callers.values(), scene.house.admin, scene.task, scene.foreign_task]
    for caller in (*callers, scene.house.api.anonymous()):
        for name in OF_AGENTS:
            method, path = name.split()
            assert caller.ask(method, path, {"agentId": "agent-of-rights"}).status == 401, name


def test_rejects_requests_without_proof(scene: Scene) -> None:
    """A sign-in does not replace the proof."""
    for caller in (scene.house.api.anonymous(), scene.house.admin):
        for name in PROVEN_BY_BODY:
            method, path = name.split()
            response = caller.ask(method, path, {})
            assert 400 <= response.status < 500, f"{name}: {response.status} {response.body!r}"
