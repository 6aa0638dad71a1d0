"""Only the owner and administrators can delete an experiment's data, also by other routes than `delete`."""

import uuid
from typing import Any

import pytest

from tests.support.api import Api, Caller, create, create_ended, report_checkpoint, trial_of
from tests.support.house import House

KEPT = {"checkpointStorage": {"saveTrialBest": 0, "saveTrialLatest": 0}}


def told_to_be_gone(checkpoint: str) -> dict[str, Any]:
    return {"checkpoints": [{"uuid": checkpoint, "resources": {"resources": {}}}]}


def state_of(caller: Caller, checkpoint: str) -> str:
    return str(caller.get(f"/api/v1/checkpoints/{checkpoint}")["checkpoint"]["state"])


def test_only_the_owner_reports_deleted_checkpoint_files(admin: Caller, user: Caller) -> None:
    other_checkpoint, own = (report_checkpoint(c, create_ended(c)) for c in (admin, user))
    response = user.ask("PATCH", "/api/v1/checkpoints", told_to_be_gone(other_checkpoint))
    assert (response.status, "of another user" in response.error) == (403, True)
    assert state_of(admin, other_checkpoint) == "STATE_COMPLETED"
    user.done("PATCH", "/api/v1/checkpoints", told_to_be_gone(own))
    assert state_of(user, own) == "STATE_DELETED"


@pytest.mark.parametrize("made", [create, create_ended])
def test_only_the_owner_reduces_the_number_of_saved_checkpoints(
    api: Api, admin: Caller, user: Caller, made: Any
) -> None:
    path = f"/api/v1/experiments/{made(admin)}"
    response = user.ask("PATCH", path, KEPT)
    assert (response.status, "keep fewer checkpoints" in response.error) == (403, True)
    more = {"checkpointStorage": {"saveTrialBest": 1, "saveTrialLatest": 5}}
    user.done("PATCH", path, more)
    admin.done("PATCH", path, KEPT)
    user.done("PATCH", f"/api/v1/experiments/{made(user)}", KEPT)


def test_only_the_owner_deletes_files_of_tensorboard(admin: Caller, user: Caller) -> None:
    response = user.ask("DELETE", f"/api/v1/experiments/{create_ended(admin)}/tensorboard-files")
    assert (response.status, "of another user" in response.error) == (403, True)
    user.done("DELETE", f"/api/v1/experiments/{create_ended(user)}/tensorboard-files")


@pytest.mark.parametrize("kind", ["projects", "workspaces"])
def test_deleting_own_workspace_requires_rights_for_experiments_of_others(
    admin: Caller, user: Caller, kind: str
) -> None:
    """Without roles, every user may move other users' experiments there."""
    workspace = user.post("/api/v1/workspaces", {"name": "a trap"})["workspace"]["id"]
    answer = user.post(f"/api/v1/workspaces/{workspace}/projects", {"name": "a trap"})
    project = answer["project"]["id"]
    experiment = create_ended(admin)
    user.post(f"/api/v1/experiments/{experiment}/move", {"destinationProjectId": project})
    place = f"/api/v1/{kind}/{project if kind == 'projects' else workspace}"
    response = user.ask("DELETE", place)
    assert (response.status, f"experiment {experiment} of another user" in response.error) == (
        403,
        True,
    )
    assert admin.done("DELETE", place) == {"completed": False}


def test_editor_cannot_delete_experiments_of_others_with_a_project(house: House) -> None:
    editor = house.person("editor", "Editor", house.red)
    chief = house.person("chief", "WorkspaceAdmin", house.red)
    response = editor.post(f"/api/v1/workspaces/{house.red}/projects", {"name": "a trap"})
    trap, other = response["project"]["id"], house.experiment(house.admin, house.red_project)
    house.admin.post(f"/api/v1/experiments/{other}/kill")
    editor.post(f"/api/v1/experiments/{other}/move", {"destinationProjectId": trap})
    assert editor.ask("DELETE", f"/api/v1/projects/{trap}").status == 403
    assert chief.ask("DELETE", f"/api/v1/projects/{trap}").status == 200


def test_only_tasks_and_owners_report_checkpoints(admin: Caller, user: Caller) -> None:
    """A trial continues from its newest checkpoint, and loading it may run code with its owner's token."""

    def reported(caller: Caller, experiment: int) -> int:
        body = {
            "uuid": str(uuid.uuid4()), "taskId": trial_of(caller, experiment)["taskId"],
            "resources": {"state": "1"}, "metadata": {"steps_completed": 9}, "state": "STATE_COMPLETED",
        }  # fmt: skip
        return caller.ask("POST", "/api/v1/checkpoints", body).status

    other_experiment, own = create(admin), create(user)
    assert [reported(user, other_experiment), reported(admin, other_experiment)] == [403, 200]
    assert [reported(user, own), reported(admin, own)] == [200, 200]
