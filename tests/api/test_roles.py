"""Rights of users with roles: `security.authz.type: rbac`."""

import uuid
from dataclasses import replace

from det_controlplane.core.config.cluster import Authz
from det_controlplane.core.people.roles import ROLES

from tests.api.test_task_tokens import reports
from tests.support.api import (
    Caller,
    config_of,
    report_checkpoint,
    trial_of,
)
from tests.support.house import House, R, assignment, id_of
from tests.support.played_agent import PlayedAgent
from tests.support.statements import statements


def test_user_without_a_role_sees_no_objects(house: House) -> None:
    stranger = house.person("stranger")
    experiment = house.experiment(house.admin, house.red_project)
    assert stranger.get("/api/v1/experiments")["experiments"] == []
    assert stranger.get("/api/v1/workspaces")["workspaces"] == []
    response = stranger.ask("GET", f"/api/v1/experiments/{experiment}")
    absent = stranger.ask("GET", "/api/v1/experiments/99999")
    assert (response.status, absent.status) == (404, 404)
    assert response.error == absent.error.replace("99999", str(experiment))
    body = {"config": config_of(), "projectId": house.red_project}
    assert stranger.ask("POST", "/api/v1/experiments", body).status == 404
    assert stranger.ask("POST", "/api/v1/workspaces", {"name": "mine"}).status == 403


def test_viewer_reads_one_workspace_and_cannot_change_it(house: House) -> None:
    viewer = house.person("viewer", "Viewer", house.red)
    red = house.experiment(house.admin, house.red_project)
    blue = house.experiment(house.admin, house.blue_project)
    assert [e["id"] for e in viewer.get("/api/v1/experiments")["experiments"]] == [red]
    assert viewer.get(f"/api/v1/experiments/{red}")["experiment"]["id"] == red
    assert viewer.ask("GET", f"/api/v1/experiments/{blue}").status == 404
    for path in (f"/api/v1/experiments/{red}/kill", f"/api/v1/experiments/{red}/archive"):
        assert viewer.ask("POST", path).status == 403
    body = {"config": config_of(), "projectId": house.red_project}
    response = viewer.ask("POST", "/api/v1/experiments", body)
    assert response.status == 403
    assert "Editor" in response.error


def test_columns_of_all_projects_are_those_of_visible_workspaces(house: House) -> None:
    viewer = house.person("viewer", "Viewer", house.red)
    for project, name in ((house.red_project, "seen"), (house.blue_project, "hidden")):
        body = {"config": config_of(hyperparameters={name: 1}), "projectId": project}
        house.admin.post("/api/v1/experiments", body)

    def hyperparameters(caller: Caller, project: int) -> set[str]:
        columns = caller.get(f"/api/v1/projects/{project}/columns")["columns"]
        return {c["column"] for c in columns if c["column"].startswith("hp.")}

    assert hyperparameters(viewer, 0) == {"hp.seen"}
    assert hyperparameters(viewer, house.red_project) == {"hp.seen"}
    assert hyperparameters(house.admin, 0) == {"hp.seen", "hp.hidden"}
    assert viewer.ask("GET", f"/api/v1/projects/{house.blue_project}/columns").status == 404
    assert viewer.get("/api/v1/projects/0/experiments/metric-ranges")["ranges"] == []


def test_error_names_the_workspace(house: House) -> None:
    viewer = house.person("viewer", "Viewer", house.red)
    red = house.experiment(house.admin, house.red_project)
    message = viewer.ask("POST", f"/api/v1/experiments/{red}/kill").error
    assert f"lacks UPDATE_EXPERIMENT in workspace 'red', where experiment {red} is" in message
    message = viewer.ask("PATCH", f"/api/v1/workspaces/{house.red}", {"name": "x"}).error
    assert "in workspace 'red': it comes with" in message


def test_error_asks_for_a_workspace_name(house: House) -> None:
    editor = house.person("editor", "Editor", house.red)
    fields = {"workspace": "red", "project": "work"}
    editor.post("/api/v1/experiments", {"config": config_of(**fields)})
    command = {"config": {"entrypoint": ["true"]}}
    editor.post("/api/v1/commands", {**command, "workspaceId": house.red})
    for path, body, right in (
        ("experiments", {"config": config_of()}, "CREATE_EXPERIMENT"),
        ("commands", command, "CREATE_NSC"),
        ("generic-tasks", {"config": "entrypoint: ['true']"}, "CREATE_NSC"),
        ("models", {"name": "mine"}, "CREATE_MODEL_REGISTRY"),
        ("templates/mine", {"config": {}}, "CREATE_TEMPLATES"),
    ):
        response = editor.ask("POST", f"/api/v1/{path}", body)
        assert response.status == 403, response.body
        assert f"user editor lacks {right} in workspace Uncategorized" in response.error
        assert "name a workspace of yours by --workspace-name" in response.error


def test_error_names_the_missing_workspace_instead_of_its_project(house: House) -> None:
    editor = house.person("editor", "Editor", house.red)
    for workspace, message in (
        ("nope", "workspace 'nope' not found"),
        ("blue", "workspace 'blue' not found"),  # which the editor may not see
        ("red", "project 'none' of workspace 'red' not found"),
    ):
        body = {"config": config_of(workspace=workspace, project="none")}
        response = editor.ask("POST", "/api/v1/experiments", body)
        assert (response.status, message in response.error) == (404, True), response.error
    assert (
        "'blue'"
        in editor.ask("POST", "/api/v1/models", {"name": "m", "workspaceName": "blue"}).error
    )


def test_editor_changes_one_workspace_and_deletes_only_own_objects(house: House) -> None:
    editor = house.person("editor", "Editor", house.red)
    own = house.experiment(editor, house.red_project)
    other = house.experiment(house.admin, house.red_project)
    for experiment in (own, other):
        editor.post(f"/api/v1/experiments/{experiment}/kill")
    editor.done("DELETE", f"/api/v1/experiments/{own}")
    assert editor.ask("DELETE", f"/api/v1/experiments/{other}").status == 403
    body = {"destinationProjectId": house.blue_project}
    assert editor.ask("POST", f"/api/v1/experiments/{other}/move", body).status == 404
    assert editor.ask("PATCH", f"/api/v1/workspaces/{house.red}", {"name": "x"}).status == 403


def test_workspace_administrator_manages_objects_of_others(
    house: House,
) -> None:
    chief = house.person("chief", "WorkspaceAdmin", house.red)
    red = house.experiment(house.admin, house.red_project)
    blue = house.experiment(house.admin, house.blue_project)
    chief.post(f"/api/v1/experiments/{red}/kill")
    chief.done("DELETE", f"/api/v1/experiments/{red}")
    assert chief.ask("POST", f"/api/v1/experiments/{blue}/kill").status == 404
    chief.done("PATCH", f"/api/v1/workspaces/{house.red}", {"name": "crimson"})
    caller = id_of(house.person("somebody"))
    chief.post(f"{R}/add-assignments", assignment("Editor", house.red, user=caller))
    for role, place, status in (
        ("Editor", house.blue, 404), ("Editor", None, 403),
        ("ClusterAdmin", None, 403), ("ClusterAdmin", house.red, 400),
    ):  # fmt: skip
        role_assignment = assignment(role, place, user=caller)
        assert chief.ask("POST", f"{R}/add-assignments", role_assignment).status == status, (
            role,
            place,
        )


def test_creator_of_a_workspace_becomes_its_administrator(house: House) -> None:
    maker = house.person("maker", "WorkspaceCreator")
    workspace_id = maker.post("/api/v1/workspaces", {"name": "own"})["workspace"]["id"]
    maker.done("PATCH", f"/api/v1/workspaces/{workspace_id}", {"name": "mine"})
    maker.post(f"/api/v1/workspaces/{workspace_id}/projects", {"name": "first"})
    assert [w["id"] for w in maker.get("/api/v1/workspaces")["workspaces"]] == [workspace_id]


def test_group_members_have_its_roles_until_they_leave(house: House) -> None:
    member = house.person("member")
    group = house.admin.post("/api/v1/groups", {"name": "team", "addUsers": [id_of(member)]})
    id = group["group"]["groupId"]
    house.assign("Viewer", house.red, group=id)
    assert member.get(f"/api/v1/workspaces/{house.red}")["workspace"]["id"] == house.red
    house.admin.done("PUT", f"/api/v1/groups/{id}", {"removeUsers": [id_of(member)]})
    assert member.ask("GET", f"/api/v1/workspaces/{house.red}").status == 404


def test_removed_role_ends_immediately(house: House) -> None:
    viewer = house.person("viewer", "Viewer", house.red)
    role_assignment = assignment("Viewer", house.red, user=id_of(viewer))
    assert viewer.ask("GET", f"/api/v1/workspaces/{house.red}").status == 200
    house.admin.post(f"{R}/remove-assignments", role_assignment)
    assert viewer.ask("GET", f"/api/v1/workspaces/{house.red}").status == 404
    assert house.admin.ask("POST", f"{R}/remove-assignments", role_assignment).status == 404


def test_agent_operator_manages_agents_and_sees_costs_only(house: House) -> None:
    operator = house.person("operator", "AgentOperator")
    house.experiment(house.admin, house.red_project)
    operator.post("/api/v1/agent-tokens", {"description": "rack 7"})
    assert operator.ask("GET", "/api/v1/costs/users").status == 200
    assert operator.get("/api/v1/experiments")["experiments"] == []
    assert operator.ask("GET", "/api/v1/master/config").status == 403
    editor = house.person("editor", "Editor")
    assert editor.ask("POST", "/api/v1/agent-tokens", {"description": "x"}).status == 403
    assert editor.ask("GET", "/api/v1/costs/users").status == 403


def test_bulk_actions_change_only_permitted_experiments(house: House) -> None:
    editor = house.person("editor", "Editor", house.red)
    house.assign("Viewer", house.blue, user=id_of(editor))
    red = house.experiment(house.admin, house.red_project)
    blue = house.experiment(house.admin, house.blue_project)
    every = "/api/v1/projects/-1/experiments/kill"
    results = editor.post(every, {"filters": {"name": "counting"}})["results"]
    assert [r["id"] for r in results] == [red]
    assert editor.ask("POST", every, {"experimentIds": [red, blue]}).status == 403
    condition = (
        '{"kind":"field","columnName":"experimentName","operator":"contains","value":"counting"}'
    )
    selection = {
        "filter": f'{{"filterGroup":{{"kind":"group","conjunction":"and","children":[{condition}]}}}}'
    }
    runs = editor.post("/api/v1/runs/kill", {"projectId": -1, **selection})["results"]
    assert [r["id"] for r in runs] == [trial_of(editor, red)["id"]]


def test_filter_does_not_extend_rights_to_other_workspaces(house: House) -> None:
    chief = house.person("chief", "WorkspaceAdmin", house.red)
    house.assign("Editor", house.blue, user=id_of(chief))
    for project in (house.red_project, house.blue_project):
        experiment_id = house.experiment(house.admin, project)
        house.admin.post(f"/api/v1/experiments/{experiment_id}/kill")
    response = chief.done(
        "DELETE", "/api/v1/projects/-1/experiments/delete", {"filters": {"name": "counting"}}
    )
    assert all("only an administrator" in r["error"] for r in response["results"])


def test_rejects_forks_warm_starts_and_models_from_invisible_objects(
    house: House,
) -> None:
    editor = house.person("editor", "Editor", house.red)
    blue = house.experiment(house.admin, house.blue_project)
    checkpoint = report_checkpoint(house.admin, blue)
    body = {"config": config_of(), "projectId": house.red_project, "activate": False}
    assert editor.ask("POST", "/api/v1/experiments", {**body, "parentId": blue}).status == 404
    for source in (
        {"source_checkpoint_uuid": checkpoint},
        {"source_trial_id": trial_of(house.admin, blue)["id"]},
    ):
        searcher = {"name": "single", "metric": "loss", "max_length": {"batches": 4}, **source}
        config = config_of(searcher=searcher)
        assert editor.ask("POST", "/api/v1/experiments", {**body, "config": config}).status == 404
    searching_body = {**body, "config": config_of(searcher={"name": "custom", "metric": "loss"})}
    search = editor.post("/api/v1/experiments", searching_body)["experiment"]["id"]
    fields = {
        "requestId": str(uuid.uuid4()), "hyperparams": "{}", "checkpointUuid": checkpoint,
    }  # fmt: skip
    operations = {"searcherOperations": [{"createTrial": fields}]}
    path = f"/api/v1/experiments/{search}/searcher_operations"
    assert editor.ask("POST", path, operations).status == 404
    assert house.admin.ask("POST", path, operations).status == 200
    editor.post("/api/v1/models", {"name": "mine", "workspaceId": house.red})
    response = editor.ask("POST", "/api/v1/models/mine/versions", {"checkpointUuid": checkpoint})
    assert response.status == 404
    assert (
        editor.ask("POST", "/api/v1/models", {"name": "b", "workspaceId": house.blue}).status == 404
    )


def test_only_templates_and_models_of_visible_workspaces_are_listed(house: House) -> None:
    editor = house.person("editor", "Editor", house.red)
    for name, workspace in (("red", house.red), ("blue", house.blue)):
        body = {"config": {"description": name}, "workspaceId": workspace}
        house.admin.post(f"/api/v1/templates/{name}", body)
        house.admin.post(
            "/api/v1/models", {"name": name, "workspaceId": workspace, "labels": [name]}
        )
    assert [t["name"] for t in editor.get("/api/v1/templates")["templates"]] == ["red"]
    assert [m["name"] for m in editor.get("/api/v1/models")["models"]] == ["red"]
    assert editor.get("/api/v1/model/labels")["labels"] == ["red"]
    put = {"config": {"description": "stolen"}, "workspaceId": house.red}
    assert editor.ask("PUT", "/api/v1/templates/blue", put).status == 404
    assert editor.ask("GET", "/api/v1/models/blue").status == 404


def test_viewer_cannot_report_containers_or_idle_trials(house: House) -> None:
    """With these two GET requests, programs also report that a container runs and that a trial is idle."""
    viewer = house.person("viewer", "Viewer", house.red)
    chief = house.person("chief", "WorkspaceAdmin", house.red)
    request = {"config": config_of(), "activate": True, "projectId": house.red_project}
    experiment = house.admin.post("/api/v1/experiments", request)["experiment"]["id"]
    agent = PlayedAgent(house.api, "agent-1")
    agent.join()
    house.api.tick()
    (order,) = agent.poll()
    path = f"/api/v1/allocations/{order['allocation_id']}/resources/{order['id']}/rendezvous"
    operation = f"/api/v1/trials/{trial_of(viewer, experiment)['id']}/searcher/operation"
    for route in (path, operation):
        response = viewer.ask("GET", route)
        assert (response.status, "UPDATE_EXPERIMENT" in response.error) == (403, True)
    assert chief.ask("GET", operation).status == 200


def test_invisible_jobs_show_only_their_size(house: House) -> None:
    viewer = house.person("viewer", "Viewer", house.red)
    for project in (house.red_project, house.blue_project):
        request = {"config": config_of(), "activate": True, "projectId": project}
        house.admin.post("/api/v1/experiments", request)
    jobs = viewer.get("/api/v1/job-queues-v2")["jobs"]
    (full,) = (j["full"] for j in jobs if "full" in j)
    (limited,) = (j["limited"] for j in jobs if "limited" in j)
    assert full["workspaceId"] == house.red
    assert limited["workspaceId"] == house.blue
    assert not {"name", "username", "entityId"} & set(limited)
    update = {"updates": [{"jobId": limited["jobId"], "priority": 1}]}
    assert viewer.ask("POST", "/api/v1/job-queues", update).status == 404


def test_only_visible_tasks_are_listed(house: House) -> None:
    viewer = house.person("viewer", "Viewer", house.red)
    for project in (house.red_project, house.blue_project):
        request = {"config": config_of(), "activate": True, "projectId": project}
        house.admin.post("/api/v1/experiments", request)
    allocation_id_to_summary = viewer.get("/api/v1/tasks")["allocationIdToSummary"]
    assert len(allocation_id_to_summary) == 1
    assert len(house.admin.get("/api/v1/tasks")["allocationIdToSummary"]) == 2


def test_permission_summary_has_roles_and_their_scopes(house: House) -> None:
    viewer = house.person("viewer", "Viewer", house.red)
    response = viewer.get("/api/v1/permissions/summary")
    role = ROLES["Viewer"].id
    assert response["assignments"] == [
        {"roleId": role, "scopeWorkspaceIds": [house.red], "scopeCluster": False}
    ]
    permissions = {p["id"] for p in response["roles"][0]["permissions"]}
    assert "PERMISSION_TYPE_VIEW_EXPERIMENT_METADATA" in permissions
    of_admin = house.admin.get("/api/v1/permissions/summary")["roles"]
    assert [r["name"] for r in of_admin] == [
        "ClusterAdmin",
        "WorkspaceAdmin",
    ]  # of the created objects


def test_roles_list_their_users(house: House) -> None:
    viewer = id_of(house.person("viewer", "Viewer", house.red))
    (role,) = house.admin.post(f"{R}/search/by-ids", {"roleIds": [ROLES["Viewer"].id]})["roles"]
    assert [a["userId"] for a in role["userRoleAssignments"]] == [viewer]
    of_user = house.admin.get(f"{R}/search/by-user/{viewer}")["roles"]
    assert [r["role"]["name"] for r in of_user] == ["Viewer"]
    members = house.admin.get(f"{R}/workspace/{house.red}")
    assert "viewer" in [u["username"] for u in members["usersAssignedDirectly"]]
    assert house.admin.ask("POST", f"{R}/search/by-ids", {"roleIds": [99]}).status == 404
    stranger = house.person("stranger")
    (hidden,) = stranger.post(f"{R}/search/by-ids", {"roleIds": [ROLES["Viewer"].id]})["roles"]
    assert hidden["userRoleAssignments"] == []


def task_of(house: House, owner: Caller) -> tuple[Caller, int]:
    request = {"config": config_of(), "activate": True, "projectId": house.red_project}
    experiment = owner.post("/api/v1/experiments", request)["experiment"]["id"]
    agent = PlayedAgent(house.api, "agent-1")
    agent.join()
    house.api.tick()
    (order,) = agent.poll()
    return house.api.with_token(order["spec"]["session_token"]), experiment


def test_task_still_reports_for_itself_after_its_owner_lost_the_role(house: House) -> None:
    editor = house.person("editor", "Editor", house.red)
    task, experiment = task_of(house, editor)
    role_assignment = assignment("Editor", house.red, user=id_of(editor))
    house.admin.post(f"{R}/remove-assignments", role_assignment)
    assert {response.status for response in reports(task, house.admin, experiment)} == {200}
    model = {"name": "m", "workspaceId": house.red}
    assert task.ask("POST", "/api/v1/models", model).status == 404


def test_task_of_an_administrator_has_no_administrator_rights(house: House) -> None:
    task, _ = task_of(house, house.admin)
    stranger = id_of(house.person("stranger"))
    role_assignment = assignment("Viewer", house.red, user=stranger)
    responses = (
        task.ask("POST", f"{R}/add-assignments", role_assignment),
        task.ask("GET", "/api/v1/master/config"),
        task.ask("PATCH", f"/api/v1/workspaces/{house.red}", {"name": "mine"}),
    )
    assert [response.status for response in responses] == [403] * 3


def test_only_budgets_of_visible_workspaces_are_listed(house: House) -> None:
    viewer = house.person("viewer", "Viewer", house.red)
    for name in ("red", "blue"):
        body = {"scope": "workspace", "of": name, "limitUsd": "5"}
        house.admin.done("PUT", "/api/v1/budgets", body)
    assert [b["scopeName"] for b in viewer.get("/api/v1/budgets")["budgets"]] == ["red"]


def test_roles_require_no_additional_statement(house: House) -> None:
    """One statement reads roles, the token, and the workspace of the object in the path."""
    editor = house.person("editor", "Editor", house.red)
    path = f"/api/v1/experiments/{house.experiment(editor, house.red_project)}"
    with statements(house.api.ctx.db) as with_roles:
        editor.get(path)
    house.api.ctx.config = replace(house.api.ctx.config, authz=Authz.BASIC)
    with statements(house.api.ctx.db) as without:
        editor.get(path)
    assert len(with_roles) == len(without)
