"""Roles in one workspace give no rights in another one: `security.authz.type: rbac`."""

from typing import Any

import pytest

from tests.support.api import ApiResponse, Caller, config_of, report_checkpoint, trial_of
from tests.support.house import House, assignment, id_of
from tests.support.played_agent import PlayedAgent

OVERRIDE = "entrypoint: python3 evil.py"
SEARCHER = {"name": "single", "metric": "loss", "max_length": {"batches": 4}}


@pytest.fixture
def chief(house: House) -> Caller:
    """Return who administrates the red workspace, and is an editor in the blue one."""
    chief = house.person("chief", "WorkspaceAdmin", house.red)
    house.assign("Editor", house.blue, user=id_of(chief))
    return chief


def ended(house: House, project: int, owner: Caller | None = None) -> int:
    experiment = house.experiment(owner or house.admin, project)
    house.admin.post(f"/api/v1/experiments/{experiment}/kill")
    return experiment


def test_workspace_administrator_cannot_change_code_of_others(house: House, chief: Caller) -> None:
    other = ended(house, house.red_project)
    body = {"id": other, "overrideConfig": OVERRIDE}
    assert chief.ask("POST", "/api/v1/experiments/continue", body).status == 403
    chief.post("/api/v1/experiments/continue", {"id": other})
    own = ended(house, house.red_project, chief)
    chief.post("/api/v1/experiments/continue", {**body, "id": own})


@pytest.mark.parametrize("of", ["red", "0", "-1"])
def test_project_filter_does_not_extend_rights(house: House, chief: Caller, of: str) -> None:
    red, blue = (ended(house, project) for project in (house.red_project, house.blue_project))
    path = f"/api/v1/projects/{house.red_project if of == 'red' else of}/experiments/delete"
    body = {"filters": {"projectId": house.blue_project}}
    results = chief.done("DELETE", path, body)["results"]
    assert [r["id"] for r in results] == [red if of == "red" else blue]  # the path decides
    assert "only an administrator" in results[0]["error"]
    assert house.admin.get(f"/api/v1/experiments/{blue}")["experiment"]["state"] == "STATE_CANCELED"


def test_project_filter_requires_rights_in_its_workspace(house: House) -> None:
    editor = house.person("editor", "Editor", house.red)
    house.assign("Viewer", house.blue, user=id_of(editor))
    house.experiment(house.admin, house.blue_project)
    body = {"filters": {"projectId": house.blue_project}}
    for of in ("0", "-1"):
        response = editor.ask("POST", f"/api/v1/projects/{of}/experiments/kill", body)
        assert (response.status, "UPDATE_EXPERIMENT" in response.error) == (403, True)


def test_administrator_of_both_workspaces_can_filter_by_project(house: House) -> None:
    chief = house.person("chief", "WorkspaceAdmin", house.blue)
    blue = ended(house, house.blue_project)
    body = {"filters": {"projectId": house.blue_project}}
    changed_all = chief.done("DELETE", "/api/v1/projects/0/experiments/delete", body)
    assert changed_all["results"] == [{"id": blue, "error": ""}]


def move_experiment(caller: Caller, experiment: int, project: int) -> ApiResponse:
    return caller.ask(
        "POST", f"/api/v1/experiments/{experiment}/move", {"destinationProjectId": project}
    )


def move_by_project(caller: Caller, experiment: int, project: int) -> ApiResponse:
    body = {"experimentIds": [experiment], "destinationProjectId": project}
    return caller.ask("POST", "/api/v1/projects/0/experiments/move", body)


def move_run(caller: Caller, experiment: int, project: int) -> ApiResponse:
    body = {
        "runIds": [trial_of(caller, experiment)["id"]],
        "destinationProjectId": project,
        "sourceProjectId": 0,
    }
    return caller.ask("POST", "/api/v1/runs/move", body)


@pytest.mark.parametrize("move", [move_experiment, move_by_project, move_run])
def test_users_cannot_move_experiments_of_others_to_their_workspace(
    house: House, chief: Caller, move: Any
) -> None:
    def project_of(experiment: int) -> Any:
        stored_experiment = house.admin.get(f"/api/v1/experiments/{experiment}")["experiment"]
        return stored_experiment["projectId"]

    blue, red = (ended(house, project) for project in (house.blue_project, house.red_project))
    own = ended(house, house.blue_project, chief)
    assert "only its owner" in move(chief, blue, house.red_project).body.decode()
    assert project_of(blue) == house.blue_project
    move(chief, own, house.red_project)
    move(chief, red, house.blue_project)  # chief administrates where it comes from
    assert (project_of(own), project_of(red)) == (house.red_project, house.blue_project)


def test_experiments_of_others_can_be_moved_within_a_workspace(house: House, chief: Caller) -> None:
    response = house.admin.post(f"/api/v1/workspaces/{house.blue}/projects", {"name": "other"})
    blue = ended(house, house.blue_project)
    assert move_experiment(chief, blue, response["project"]["id"]).status == 200


def test_users_cannot_move_models_of_others_to_their_workspace(house: House, chief: Caller) -> None:
    for owner, name in ((house.admin, "theirs"), (chief, "mine")):
        owner.post("/api/v1/models", {"name": name, "workspaceId": house.blue})

    def moved(name: str, workspace: int) -> list[int]:
        path = f"/api/v1/models/{name}"
        return [
            chief.ask("POST", f"{path}/move", {"destinationWorkspaceId": workspace}).status,
            chief.ask("PATCH", path, {"workspaceId": workspace}).status,
        ]

    assert moved("theirs", house.red) == [403, 403]
    assert moved("theirs", house.blue) == [200, 200]
    assert moved("mine", house.red) == [200, 200]
    assert moved("mine", house.blue) == [200, 200]


def task_from(house: House, owner: Caller, checkpoint: str) -> tuple[Caller, int]:
    """Return the token of a task in the red workspace with a trial that starts from a checkpoint."""
    config = config_of(searcher={**SEARCHER, "source_checkpoint_uuid": checkpoint})
    request = {"config": config, "activate": True, "projectId": house.red_project}
    experiment = owner.post("/api/v1/experiments", request)["experiment"]["id"]
    agent = PlayedAgent(house.api, "agent-1")
    agent.join()
    house.api.tick()
    (order,) = agent.poll()
    return house.api.with_token(order["spec"]["session_token"]), experiment


def test_task_reads_checkpoints_visible_to_its_owner_or_used_by_it(
    house: House, chief: Caller
) -> None:
    start, other = (
        report_checkpoint(house.admin, ended(house, house.blue_project)) for _ in range(2)
    )
    task, experiment = task_from(house, chief, start)
    own = report_checkpoint(task, experiment)

    def asked(checkpoint: str) -> list[int]:
        path = f"/api/v1/checkpoints/{checkpoint}"
        return [task.ask("GET", path).status, task.ask("GET", f"{path}/metrics").status]

    assert asked(own) + asked(start) + asked(other) == [200] * 6
    for role, workspace in (("Editor", house.blue), ("WorkspaceAdmin", house.red)):
        role_assignment = assignment(role, workspace, user=id_of(chief))
        house.admin.post("/api/v1/roles/remove-assignments", role_assignment)
    assert asked(own) + asked(start) == [200] * 4
    assert asked(other) == [404, 404]
    for checkpoint, status in ((own, 200), (start, 404)):
        path = f"/api/v1/checkpoints/{checkpoint}/metadata"
        assert task.ask("POST", path, {"checkpoint": {"metadata": {"a": 1}}}).status == status
