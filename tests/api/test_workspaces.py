"""Workspaces, projects, their bound pools, and the effects of their deletion."""

import pytest
from det_controlplane.db.engine.database import Database
from det_controlplane.db.experiments import submissions
from det_controlplane.db.experiments.submissions import experiment_config
from det_controlplane.services import sealing
from sqlalchemy import text

from tests.support.api import Api, Caller, config_of, create, create_ended, report_checkpoint
from tests.support.house import House
from tests.support.played_agent import PlayedAgent


def workspace(caller: Caller, name: str = "vision", **more: object) -> int:
    new_workspace = caller.post("/api/v1/workspaces", {"name": name, **more})["workspace"]
    return int(new_workspace["id"])


def project(caller: Caller, workspace_id: int, name: str = "cats", **more: object) -> int:
    path = f"/api/v1/workspaces/{workspace_id}/projects"
    return int(caller.post(path, {"name": name, **more})["project"]["id"])


def test_new_workspace_is_pinned_for_its_creator(admin: Caller, user: Caller) -> None:
    workspace_id = workspace(user)
    assert user.get(f"/api/v1/workspaces/{workspace_id}")["workspace"]["pinned"] is True
    assert admin.get(f"/api/v1/workspaces/{workspace_id}")["workspace"]["pinned"] is False


def test_workspace_names_are_unique_regardless_of_case(user: Caller) -> None:
    workspace(user)
    response = user.ask("POST", "/api/v1/workspaces", {"name": "VISION"})
    assert response.status == 409
    assert "VISION" in response.error


@pytest.mark.parametrize("name", ["", "  ", "x" * 81])
def test_rejects_invalid_workspace_names(user: Caller, name: str) -> None:
    assert user.ask("POST", "/api/v1/workspaces", {"name": name}).status == 400


def test_only_owners_and_administrators_can_edit_a_workspace(admin: Caller, user: Caller) -> None:
    workspace_id = workspace(admin)
    assert user.ask("PATCH", f"/api/v1/workspaces/{workspace_id}", {"name": "mine"}).status == 403
    own_workspace = workspace(user, "mine")
    admin.done("PATCH", f"/api/v1/workspaces/{own_workspace}", {"name": "ours"})


def test_built_in_workspace_and_project_cannot_be_changed(admin: Caller, user: Caller) -> None:
    changes: list[tuple[str, str, object]] = [
        ("DELETE", "", None),
        ("PATCH", "", {"name": "x"}),
        ("PATCH", "", {"agentUserGroup": {"agentUid": 1}}),
        ("POST", "/archive", {}),
        ("POST", "/unarchive", {}),
    ]
    for caller, status, reason in ((admin, 400, "built in"), (user, 403, "administrator")):
        for thing in ("workspaces/1", "projects/1"):
            for method, action, body in changes:
                answer = caller.ask(method, f"/api/v1/{thing}{action}", body)
                assert answer.status == status, (method, thing, action)
                assert reason in answer.error


def test_built_in_workspace_rejects_more_projects(user: Caller) -> None:
    response = user.ask("POST", "/api/v1/workspaces/1/projects", {"name": "cats"})
    assert response.status == 400
    assert "built in" in response.error
    inside = project(user, workspace(user))
    response = user.ask("POST", f"/api/v1/projects/{inside}/move", {"destinationWorkspaceId": 1})
    assert response.status == 400
    assert "built in" in response.error


def test_storage_keys_are_stored_but_not_shown(api: Api, user: Caller) -> None:
    storage = {"type": "s3", "bucket": "b", "access_key": "AKIA", "secret_key": "hush"}
    workspace_id = workspace(user, checkpointStorageConfig=storage)
    path = f"/api/v1/workspaces/{workspace_id}"
    checkpoint_storage_config = user.get(path)["workspace"]["checkpointStorageConfig"]
    assert checkpoint_storage_config == {
        **storage,
        "access_key": "********",
        "secret_key": "********",
    }
    assert b"hush" not in user.ask("GET", "/api/v1/workspaces").body
    user.done(
        "PATCH", path, {"checkpointStorageConfig": {**checkpoint_storage_config, "bucket": "c"}}
    )
    into = project(user, workspace_id)
    made_there = user.post("/api/v1/experiments", {"config": config_of(), "projectId": into})
    assert made_there["config"]["checkpoint_storage"]["bucket"] == "c"
    assert made_there["config"]["checkpoint_storage"]["secret_key"] == "********"
    experiment_id = experiment_config(api.ctx.db, made_there["experiment"]["id"])
    assert experiment_id is not None
    storage = sealing.unsealed(api.ctx, experiment_id.config, experiment_id.sealed)[
        "checkpoint_storage"
    ]
    assert storage["secret_key"] == "hush"


def test_archived_workspace_archives_its_projects_and_rejects_new_objects(user: Caller) -> None:
    workspace_id = workspace(user)
    inside = project(user, workspace_id)
    user.post(f"/api/v1/workspaces/{workspace_id}/archive")
    assert user.get(f"/api/v1/projects/{inside}")["project"]["archived"] is True
    assert (
        user.ask("POST", f"/api/v1/workspaces/{workspace_id}/projects", {"name": "d"}).status == 400
    )
    request = {"config": config_of(), "projectId": inside}
    assert user.ask("POST", "/api/v1/experiments", request).status == 400


def test_project_key_is_derived_from_the_name_or_chosen_once(user: Caller) -> None:
    inside = workspace(user)
    new_project = user.get(f"/api/v1/projects/{project(user, inside, 'cat pictures')}")["project"]
    assert new_project["key"].startswith("CAT")
    assert len(new_project["key"]) == 5
    project(user, inside, "dogs", key="dogs")
    path = f"/api/v1/workspaces/{inside}/projects"
    response = user.ask("POST", path, {"name": "more", "key": "DOGS"})
    assert response.status == 409
    assert user.get("/api/v1/projects/key/dogs")["project"]["name"] == "dogs"
    assert user.ask("POST", path, {"name": "x", "key": "a-b"}).status == 400


def test_notes_have_a_size_limit(user: Caller) -> None:
    path = f"/api/v1/projects/{project(user, workspace(user))}/notes"
    large = {"name": "log", "contents": "x" * (3 << 20)}
    assert user.post(path, {"note": large})["notes"] == [large]
    response = user.ask("POST", path, {"note": large})
    assert (response.status, "4 MiB at most" in response.error) == (413, True)
    assert user.ask("PUT", path, {"notes": [large, large]}).status == 413


def test_notes_are_added_and_replaced(user: Caller) -> None:
    path = f"/api/v1/projects/{project(user, workspace(user))}/notes"
    first, second = {"name": "a", "contents": "1"}, {"name": "b", "contents": "2"}
    user.post(path, {"note": first})
    assert user.post(path, {"note": second})["notes"] == [first, second]
    assert user.done("PUT", path, {"notes": [second]})["notes"] == [second]


def test_experiment_can_be_moved_between_projects(user: Caller) -> None:
    target, experiment_id = project(user, workspace(user)), create(user)
    user.post(f"/api/v1/experiments/{experiment_id}/move", {"destinationProjectId": target})
    experiment = user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]
    assert experiment["projectId"] == target
    user.post(f"/api/v1/projects/{target}/archive")
    back = {"destinationProjectId": 1}
    assert user.ask("POST", f"/api/v1/experiments/{experiment_id}/move", back).status == 400


def test_empty_workspace_is_deleted_immediately(user: Caller) -> None:
    workspace_id = workspace(user)
    assert user.done("DELETE", f"/api/v1/workspaces/{workspace_id}") == {"completed": True}
    assert user.ask("GET", f"/api/v1/workspaces/{workspace_id}").status == 404


def test_rejects_deletion_with_running_experiments_or_registered_models(user: Caller) -> None:
    workspace_id = workspace(user)
    inside = project(user, workspace_id)
    experiment_id = create(user)
    user.post(f"/api/v1/experiments/{experiment_id}/move", {"destinationProjectId": inside})
    for path in (f"/api/v1/workspaces/{workspace_id}", f"/api/v1/projects/{inside}"):
        response = user.ask("DELETE", path)
        assert response.status == 400
        assert "not ended" in response.error
    user.post(f"/api/v1/experiments/{experiment_id}/kill")
    user.post("/api/v1/models", {"name": "m"})
    checkpoint = {"checkpointUuid": report_checkpoint(user, experiment_id)}
    user.post("/api/v1/models/m/versions", checkpoint)
    response = user.ask("DELETE", f"/api/v1/projects/{inside}")
    assert response.status == 400
    assert "model 'm'" in response.error


def running(api: Api) -> int:
    live = text("SELECT count(*) FROM allocations WHERE state <> 'TERMINATED'")
    return int(api.ctx.db.read(live)[0][0])


def notebook(caller: Caller, workspace_id: int) -> str:
    body = {"config": {"resources": {"slots": 0}}, "workspaceId": workspace_id}
    return str(caller.post("/api/v1/notebooks", body)["notebook"]["id"])


def settle(api: Api) -> None:
    """Run the promised effects, also an effect that waits for its next try."""
    api.retry_deletions()


@pytest.mark.parametrize("kind", ["notebook", "generic"])
def test_deleting_a_workspace_ends_its_tasks(
    api: Api, agent: PlayedAgent, user: Caller, kind: str
) -> None:
    workspace_id = workspace(user)
    if kind == "notebook":
        notebook(user, workspace_id)
    else:
        generic = {"config": "entrypoint: [ls]", "projectId": project(user, workspace_id)}
        user.post("/api/v1/generic-tasks", generic)
    api.tick()
    agent.poll()
    assert running(api) == 1
    assert user.done("DELETE", f"/api/v1/workspaces/{workspace_id}") == {"completed": False}
    api.tick()
    (order,) = agent.poll()
    assert order["desired"] == "killed"
    stored_workspace = user.get(f"/api/v1/workspaces/{workspace_id}")["workspace"]
    assert stored_workspace["errorMessage"].startswith("1 tasks are being ended: ")
    agent.poll("terminated", exit_code=137)
    settle(api)
    assert running(api) == 0
    assert user.ask("GET", f"/api/v1/workspaces/{workspace_id}").status == 404


def test_deleting_a_workspace_ends_its_queued_tasks(api: Api, user: Caller) -> None:
    workspace_id = workspace(user)
    notebook(user, workspace_id)
    assert user.done("DELETE", f"/api/v1/workspaces/{workspace_id}") == {"completed": False}
    api.tick()
    assert running(api) == 0
    assert user.ask("GET", f"/api/v1/workspaces/{workspace_id}").status == 404


@pytest.mark.parametrize("kind", ["workspaces", "projects"])
@pytest.mark.parametrize(
    ("method", "verb"), [("POST", "/archive"), ("POST", "/unarchive"), ("DELETE", "")]
)
def test_built_in_workspace_returns_403_for_all_but_administrators(
    house: House, kind: str, method: str, verb: str
) -> None:
    path = f"/api/v1/{kind}/1{verb}"
    manager = house.person("manager", "WorkspaceAdmin", 1)
    for caller in (house.person("editor", "Editor", 1), manager):
        assert caller.ask(method, path).status == 403
    assert house.admin.ask(method, path).status == 400


def test_rejected_deletion_of_a_workspace_does_not_end_its_tasks(api: Api, user: Caller) -> None:
    workspace_id = workspace(user)
    notebook(user, workspace_id)
    request = {"config": config_of(), "projectId": project(user, workspace_id), "activate": True}
    user.post("/api/v1/experiments", request)
    assert "kill them first" in user.ask("DELETE", f"/api/v1/workspaces/{workspace_id}").error
    api.tick()
    assert running(api) == 2


def test_task_launched_during_a_deletion_ends_with_its_workspace(
    api: Api, user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace_id = workspace(user)
    project(user, workspace_id)
    look = submissions.workspace

    def before_its_deletion(db: Database, id: int) -> submissions.TargetWorkspace | None:
        """Return a workspace as it was found before its deletion began."""
        row = look(db, id)
        assert user.done("DELETE", f"/api/v1/workspaces/{workspace_id}") == {"completed": False}
        return row

    monkeypatch.setattr(submissions, "workspace", before_its_deletion)
    notebook(user, workspace_id)
    assert running(api) == 1
    api.tick()
    assert running(api) == 0
    assert user.ask("GET", f"/api/v1/workspaces/{workspace_id}").status == 404


def test_deleting_a_project_deletes_its_experiments(api: Api, user: Caller) -> None:
    inside = project(user, workspace(user))
    experiment_id = create_ended(user)
    user.post(f"/api/v1/experiments/{experiment_id}/move", {"destinationProjectId": inside})
    assert user.done("DELETE", f"/api/v1/projects/{inside}") == {"completed": False}
    api.tick()
    state = user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]["state"]
    assert state == "STATE_DELETING"
    request = {"config": config_of(), "projectId": inside}
    assert user.ask("POST", "/api/v1/experiments", request).status == 400


def test_workspaces_and_projects_being_deleted_reject_new_objects(api: Api, user: Caller) -> None:
    workspace_id = workspace(user)
    inside = project(user, workspace_id)
    with api.ctx.db.begin() as tx:
        tx.execute(text("UPDATE projects SET state = 'DELETING' WHERE id = :id"), {"id": inside})
        tx.execute(
            text("UPDATE workspaces SET state = 'DELETING' WHERE id = :id"), {"id": workspace_id}
        )
    task = {"config": "entrypoint: [ls]", "contextDirectory": [], "projectId": inside}
    responses = [
        user.ask("POST", "/api/v1/experiments", {"config": config_of(), "projectId": inside}),
        user.ask("POST", "/api/v1/generic-tasks", task),
        user.ask("POST", "/api/v1/notebooks", {"config": {}, "workspaceId": workspace_id}),
        user.ask("POST", "/api/v1/models", {"name": "late", "workspaceId": workspace_id}),
        user.ask("POST", f"/api/v1/workspaces/{workspace_id}/projects", {"name": "late"}),
    ]
    places = [f"project {inside}"] * 2 + [f"workspace {workspace_id}"] * 2 + ["workspace 'vision'"]
    assert [response.error for response in responses] == [
        f"{place} is being deleted, or could not be deleted: choose another" for place in places
    ]


def test_reserved_pool_accepts_only_its_workspaces(admin: Caller, user: Caller) -> None:
    workspace_id = workspace(user)
    inside = project(user, workspace_id)
    path = "/api/v1/resource-pools/reserved/workspace-bindings"
    assert user.ask("POST", path, {"workspaceIds": [workspace_id]}).status == 403
    admin.post(path, {"workspaceNames": ["vision"]})
    assert admin.get(path)["workspaceIds"] == [workspace_id]
    pools = f"/api/v1/workspaces/{workspace_id}/available-resource-pools"
    assert user.get(pools)["resourcePools"] == ["default", "reserved"]
    assert user.get("/api/v1/workspaces/1/available-resource-pools")["resourcePools"] == ["default"]
    config = config_of(resources={"resource_pool": "reserved"})
    response = user.ask("POST", "/api/v1/experiments", {"config": config})
    assert response.status == 400
    assert "'reserved' is reserved for other workspaces" in response.error
    user.post("/api/v1/experiments", {"config": config, "projectId": inside})
    admin.done("DELETE", path, {"workspaceIds": [workspace_id]})
    user.post("/api/v1/experiments", {"config": config})


def test_pools_can_be_listed_in_pages_and_without_reserved_ones(admin: Caller) -> None:
    def names(**query: list[str]) -> list[str]:
        response = admin.done("GET", "/api/v1/resource-pools", query=query)
        return [pool["name"] for pool in response["resourcePools"]]

    assert names() == ["default", "reserved"]
    assert names(offset=["1"], limit=["1"]) == ["reserved"]
    admin.post("/api/v1/resource-pools/reserved/workspace-bindings", {"workspaceIds": [1]})
    assert names(unbound=["true"]) == ["default"]


def test_default_pools_cannot_be_reserved(admin: Caller, user: Caller) -> None:
    path = "/api/v1/resource-pools/default/workspace-bindings"
    for method in ("POST", "PUT"):
        for caller in (user, admin):
            response = caller.ask(method, path, {"workspaceIds": [1]})
            assert response.status == 400
            assert "cannot be bound" in response.error
        other = path.replace("default", "reserved")
        assert user.ask(method, other, {"workspaceIds": [1]}).status == 403
    assert admin.ask("POST", path.replace("default", "none"), {"workspaceIds": [1]}).status == 404


def test_bulk_action_returns_a_result_for_each_experiment(user: Caller) -> None:
    paused_experiment, ended_experiment = create(user), create_ended(user)
    body = {"experimentIds": [paused_experiment, ended_experiment, 999]}
    results = user.post("/api/v1/projects/1/experiments/archive", body)["results"]
    assert [r["id"] for r in results] == [paused_experiment, ended_experiment, 999]
    assert "only ended" in results[0]["error"]
    assert results[1]["error"] == ""
    assert "not found" in results[2]["error"]


def test_project_minus_one_selects_all_projects(user: Caller) -> None:
    inside = project(user, workspace(user))
    ids = [create(user, name="cats"), create(user, name="more cats"), create(user, name="dogs")]
    move = {"destinationProjectId": inside}
    user.post(f"/api/v1/experiments/{ids[1]}/move", move)
    path, body = "/api/v1/projects/-1/experiments", {"filters": {"name": "cat"}}
    results = user.post(f"{path}/kill", body)["results"]
    assert results == [{"id": i, "error": ""} for i in ids[:2]]
    selection = {"experimentIds": ids[:2]}
    assert [r["error"] for r in user.post(f"{path}/archive", selection)["results"]] == ["", ""]
    assert user.ask("POST", "/api/v1/projects/-2/experiments/kill", body).status == 400
    assert user.ask("POST", f"{path}/kill", {"filters": {"archived": False}}).status == 400


def test_filters_select_the_experiments(user: Caller) -> None:
    cats, dogs = create(user, name="cats"), create(user, name="dogs")
    body = {"filters": {"name": "cat"}}
    assert user.post("/api/v1/projects/1/experiments/kill", body)["results"] == [
        {"id": cats, "error": ""}
    ]
    assert user.get(f"/api/v1/experiments/{dogs}")["experiment"]["state"] == "STATE_PAUSED"
    assert user.ask("POST", "/api/v1/projects/1/experiments/kill", {}).status == 400
