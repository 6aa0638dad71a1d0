"""Every route is called as each role. The rule in its record decides which roles it refuses."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from det_controlplane.api import routes
from det_controlplane.api.app import App
from det_controlplane.api.http import Request, Response
from det_controlplane.api.router import Access, Route, Router
from det_controlplane.core.config.cluster import Authz
from det_controlplane.core.people import permissions
from det_controlplane.core.people.permissions import Need, NeedScope, TaskRule
from det_controlplane.core.people.roles import CLUSTER, ROLES, Grants, Right, grants_of

from tests.support.api import Api, Caller, config_of, report_checkpoint, trial_of
from tests.support.house import House, id_of
from tests.support.played_agent import PlayedAgent

GUARDED = [r for r in routes.every() if r.access in (Access.USER, Access.ADMIN)]
# In the one workspace in which they are given, or everywhere.
GIVEN = {
    "nothing": None, "Viewer": "here", "EditorRestricted": "here", "Editor": "here", "WorkspaceAdmin": "here",
    "WorkspaceCreator": None, "AgentOperator": None,
}  # fmt: skip


def rule_of(route: Route) -> permissions.Rule:
    assert route.rule is not None, f"{route.method} {route.path} needs a rule in its record"
    return route.rule


@pytest.mark.parametrize("route", GUARDED, ids=lambda r: f"{r.method} {r.path}")
def test_every_route_has_a_rule(route: Route) -> None:
    for need in rule_of(route).needs:
        names = {*permissions.KINDS, "{kind}"}
        assert need.of is not NeedScope.NAMED or need.kind in names
        assert need.place != "path" or f"{{{need.names[0]}}}" in route.path


def test_route_without_a_rule_rejects_requests(api: Api) -> None:
    route = Route("GET", "/api/v1/unruled", lambda ctx, request: Response())
    app = App(api.ctx, Router([route]))
    token = api.signed_in("admin").token
    answer = app.handle(
        Request("GET", "/api/v1/unruled", headers={"authorization": f"Bearer {token}"})
    )
    assert isinstance(answer, Response)
    assert answer.status == 403


@dataclass(frozen=True)
class Things:
    """The objects of a workspace by the names of parameters."""

    workspace: int
    names: dict[str, str]


@dataclass(frozen=True)
class Scene:
    house: House
    here: Things
    there: Things
    callers: dict[str, Caller]
    agent: Caller
    task: Caller  # of an administrator, in another workspace
    foreign_task: Caller  # of an editor of that other workspace

    def grants(self, role: str) -> Grants:
        place = self.here.workspace if GIVEN[role] else CLUSTER
        return grants_of(((role, place),) if role in ROLES else (), admin=False)


@pytest.fixture(scope="module")
def scene(shared_api: Api) -> Iterator[Scene]:
    yield from scene_in(shared_api)


@pytest.fixture
def own_scene(api: Api) -> Iterator[Scene]:
    """Return objects for a test that changes them."""
    yield from scene_in(api)


def scene_in(api: Api) -> Iterator[Scene]:
    before = api.ctx.config
    api.ctx.config = replace(before, authz=Authz.RBAC)
    house = House(api, api.signed_in("admin"))
    here = things(house, "red", house.red, house.red_project)
    there = things(house, "blue", house.blue, house.blue_project)
    callers = {
        role: house.person(f"a-{role}", role if role in ROLES else "", house.red if place else None)
        for role, place in GIVEN.items()
    }
    yield Scene(house, here, there, callers, *running(house))
    api.ctx.config = before


def things(house: House, color: str, workspace: int, project: int) -> Things:
    admin = house.admin
    experiment = house.experiment(admin, project)
    trial = trial_of(admin, experiment)
    admin.post(f"/api/v1/templates/{color}", {"config": {}, "workspaceId": workspace})
    admin.post("/api/v1/models", {"name": color, "workspaceId": workspace})
    key = admin.get(f"/api/v1/projects/{project}")["project"]["key"]
    job = admin.get(f"/api/v1/experiments/{experiment}")["experiment"]["jobId"]
    group = admin.post("/api/v1/groups", {"name": color})["group"]["groupId"]
    names = {
        "workspaceId": workspace, "projectId": project, "experimentId": experiment, "trialId": trial["id"],
        "runId": trial["id"], "taskId": trial["taskId"], "checkpointUuid": report_checkpoint(admin, experiment),
        "modelName": color, "templateName": color, "key": key, "modelVersionNum": 1, "groupId": group,
        "userId": id_of(admin), "username": "admin", "kind": "experiment", "workloadType": "EXPERIMENT",
        "externalExperimentId": "x", "externalTrialId": "x", "jobId": job,
    }  # fmt: skip
    return Things(workspace, {name: str(value) for name, value in names.items()})


def running(house: House) -> tuple[Caller, Caller, Caller]:
    """Return the tokens of an agent, and of two tasks of another workspace that run on it."""
    other = house.workspace("green")
    project = house.admin.post(f"/api/v1/workspaces/{other}/projects", {"name": "work"})["project"]
    body = {"config": config_of(), "activate": True, "projectId": project["id"]}
    editor = house.person("a-green-editor", "Editor", other)
    responses = [owner.post("/api/v1/experiments", body) for owner in (house.admin, editor)]
    tasks = [trial_of(house.admin, m["experiment"]["id"])["taskId"] for m in responses]
    agent = PlayedAgent(house.api, "agent-of-rights")
    agent.join()
    house.api.tick()
    tokens = {o["spec"]["task_id"]: o["spec"]["session_token"] for o in agent.poll()}
    of_admin, of_editor = (house.api.with_token(tokens[task]) for task in tasks)
    return agent._caller, of_admin, of_editor


_ID_OF = {
    "workspaces": "workspaceId", "projects": "projectId", "experiments": "experimentId", "trials": "trialId",
    "why": "experimentId",
}  # fmt: skip


def asked(route: Route, things: Things) -> tuple[str, dict[str, Any], dict[str, list[str]]]:
    """Return path, body and query that name things of a workspace, as far as the rule says where."""
    place = routes.place_of(route.path)
    path = "/".join(
        things.names.get(_ID_OF.get(place, "") if name == "id" else name, "x")
        if (name := part.strip("{}")) != part
        else part
        for part in route.path.split("/")
    )
    body: dict[str, Any] = {}
    query: dict[str, list[str]] = {}
    for need in rule_of(route).needs:
        if need.of is NeedScope.NAMED and need.place != "path":
            value = things.names[_parameter(need.kind)]
            if need.place == "query":
                query[need.names[0]] = [value]
            else:
                _put(body, need.names, value)
    return path, body, query


def _parameter(kind: str) -> str:
    return {
        "model": "modelName", "template": "templateName", "checkpoint": "checkpointUuid", "job": "jobId",
    }.get(kind, f"{kind}Id")  # fmt: skip


def _put(body: dict[str, Any], names: tuple[str, ...], value: str) -> None:
    """Put a value where the way leads, into lists where the last name is of many."""
    *ways, last = names
    for way in ways:
        inner: dict[str, Any] = {}
        many = way in ("updates", "checkpoints", "logs", "batches")
        body[way] = [inner] if many else inner
        body = inner
    parsed: Any = int(value) if value.isdigit() else value
    body[last] = [parsed] if last.endswith("s") else parsed


def needed(scene: Scene, route: Route, role: str, place: Things) -> bool:
    """Return whether a role has the right of a route in the workspace of its objects."""
    grants = scene.grants(role)

    def given(need: Need) -> bool:
        if need.of is NeedScope.CLUSTER:
            return grants.has(need.right)
        if need.of is NeedScope.SOMEWHERE:
            return grants.somewhere(need.right)
        return need.of is not NeedScope.NAMED or grants.has(need.right, place.workspace)

    return all(given(need) for need in rule_of(route).needs)


def is_dynamic(route: Route) -> bool:
    """Return whether a route names an object that the test does not have."""
    kinds = {need.kind for need in rule_of(route).needs}
    of_a_person = "{budgetId}" in route.path or route.path.endswith("{userId}/sessions")
    return bool(kinds & {"allocation", "experiment-external"}) or of_a_person


@pytest.mark.parametrize("role", GIVEN)
def test_roles_are_rejected_on_routes_they_do_not_permit(scene: Scene, role: str) -> None:
    rejected_count = 0
    for route in GUARDED:
        for place in (scene.here, scene.there):
            if needed(scene, route, role, place):
                continue
            path, body, query = asked(route, place)
            response = scene.callers[role].ask(route.method, path, body, query)
            assert response.status in (403, 404), (
                f"{route.method} {path}: {response.status} {response.body!r}"
            )
            rejected_count += 1
    assert rejected_count > 200


@pytest.mark.parametrize("role", GIVEN)
def test_roles_read_the_routes_they_permit(scene: Scene, role: str) -> None:
    for route in GUARDED:
        if route.method != "GET" or is_dynamic(route) or rule_of(route).report:
            continue
        if needed(scene, route, role, scene.here):
            path, body, query = asked(route, scene.here)
            response = scene.callers[role].ask(route.method, path, body, query)
            assert response.status != 403, f"{route.method} {path}: {response.body!r}"


def test_invisible_objects_get_the_same_response_as_missing_ones(scene: Scene) -> None:
    stranger = scene.callers["nothing"]
    for route in GUARDED:
        named_needs = [
            n for n in rule_of(route).needs if n.of is NeedScope.NAMED and n.place == "path"
        ]
        if not named_needs or is_dynamic(route) or named_needs[0].kind in ("project-key", "{kind}"):
            continue
        path, body, query = asked(route, scene.here)
        name = scene.here.names[_parameter(named_needs[0].kind.removesuffix("-or-all"))]
        there = stranger.ask(route.method, path, body, query)
        absent = stranger.ask(route.method, _instead(path, name), body, query)
        assert (there.status, absent.status) == (404, 404), path
        assert there.error.replace(name, absent_name(name)) == absent.error


def _instead(path: str, name: str) -> str:
    parts = path.split("/")
    return "/".join(absent_name(part) if part == name else part for part in parts)


def absent_name(name: str) -> str:
    if name.isdigit():
        return "987654"
    return f"{name[:-1]}{'0' if name[-1] != '0' else '1'}" if "-" in name else "absent"


def test_rejects_tokens_of_agents_and_of_other_tasks(scene: Scene) -> None:
    reports = (TaskRule.NEVER, TaskRule.OWN_TRIAL)
    for route in GUARDED:
        path, body, query = asked(route, scene.here)
        assert scene.agent.ask(route.method, path, body, query).status == 401, path
        response = scene.house.api.anonymous().ask(route.method, path, body, query)
        assert response.status == 401, path
        rule = rule_of(route).task
        names = "{" in route.path or rule is TaskRule.NEVER
        if rule in reports and names and not is_dynamic(route):
            response = scene.task.ask(route.method, path, body, query)
            assert response.status == 403, (
                f"{route.method} {path}: {response.status} {response.body!r}"
            )


def test_rules_for_own_objects_of_a_task_have_an_id_in_their_path() -> None:
    """Leave objects that only a body names to the service, marked `service` in the table."""
    own = (TaskRule.OWN_TRIAL, TaskRule.OWN_EXPERIMENT, TaskRule.OWN_TASK)
    for route in GUARDED:
        if rule_of(route).task in own:
            names = ("{trialId}", "{runId}", "{experimentId}", "{id}", "{taskId}")
            assert any(name in route.path for name in names), f"{route.method} {route.path}"


def test_task_of_another_user_cannot_change_objects(own_scene: Scene) -> None:
    """Call each route with the token of a task that has an owner without a role in the workspace."""
    rejected_count = 0
    for route in GUARDED:
        named_needs = [need for need in rule_of(route).needs if need.of is NeedScope.NAMED]
        if route.method == "GET" or is_dynamic(route) or not named_needs:
            continue
        path, body, query = asked(route, own_scene.here)
        response = own_scene.foreign_task.ask(route.method, path, body, query)
        assert response.status in (403, 404), (
            f"{route.method} {path}: {response.status} {response.body!r}"
        )
        rejected_count += 1
    assert rejected_count > 80


@pytest.mark.parametrize("role", ["Editor", "WorkspaceAdmin"])
def test_roles_change_the_objects_they_permit(own_scene: Scene, role: str) -> None:
    """Requests for owners only are an exception. Administrators of the workspace may send them, too."""
    allowed = 0
    for route in GUARDED:
        has_named_need = any(need.of is NeedScope.NAMED for need in rule_of(route).needs)
        if route.method == "GET" or is_dynamic(route) or not has_named_need:
            continue
        if not needed(own_scene, route, role, own_scene.here):
            continue
        path, body, query = asked(route, own_scene.here)
        response = own_scene.callers[role].ask(route.method, path, body, query)
        if response.status == 403:
            assert (role, "of another user" in response.error) == ("Editor", True), response.error
        else:
            allowed += 1
    assert allowed > 50


# Routes of which the use case itself decides, because a body says where: with the names of their place.
_CREATED: dict[str, tuple[str, dict[str, Any]]] = {
    "experiments": ("projectId", {"config": config_of()}),
    "models": ("workspaceId", {"name": "made"}),
    "templates/made": ("workspaceId", {"config": {}}),
    "webhooks": ("workspaceId", {
        "name": "w", "url": "https://example.com/hook", "webhookType": "WEBHOOK_TYPE_DEFAULT",
        "mode": "WEBHOOK_MODE_WORKSPACE",
        "triggers": [{"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "ERROR"}}],
    }),
    "commands": ("workspaceId", {"config": {"entrypoint": ["true"], "resources": {"slots": 0}}}),
    "notebooks": ("workspaceId", {"config": {"resources": {"slots": 0}}}),
    "shells": ("workspaceId", {"config": {"resources": {"slots": 0}}}),
    "generic-tasks": ("projectId", {"config": "{entrypoint: [\"true\"], resources: {slots: 0}}"}),
}  # fmt: skip


@pytest.mark.parametrize("path", _CREATED)
def test_objects_are_created_only_where_a_role_permits_it(scene: Scene, path: str) -> None:
    field, body = _CREATED[path]

    def status_of(role: str, place: Things) -> int:
        asked_in = {**body, field: int(place.names[field])}
        return scene.callers[role].ask("POST", f"/api/v1/{path}", asked_in).status

    assert status_of("Viewer", scene.here) == 403
    assert status_of("Editor", scene.there) in (403, 404)
    assert status_of("nothing", scene.here) in (403, 404)
    assert status_of("Editor", scene.here) == 200


def test_roles_are_ordered() -> None:
    """A viewer may do less than an editor, and so on: a higher role never removes a right."""
    order = ("Viewer", "EditorRestricted", "Editor", "WorkspaceAdmin", "ClusterAdmin")
    for lower, higher in pairwise(order):
        assert ROLES[lower].rights < ROLES[higher].rights
    assert all(right.name.startswith("VIEW_") for right in ROLES["Viewer"].rights)
    assert Right.ASSIGN_ROLES not in ROLES["Editor"].rights
