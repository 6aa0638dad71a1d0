"""Tasks of no experiment have rights of their own, and trees of tasks give none in other workspaces."""

from dataclasses import replace
from typing import Any

import pytest
from det_controlplane.core.people.roles import Grants, Right
from det_controlplane.services.errors import Forbidden, Missing
from det_controlplane.services.identity import authentication, route_rights

from tests.support.api import Caller, trial_of
from tests.support.house import House

V = "/api/v1"
CONFIG = "entrypoint: [python3, work.py]\nresources: {slots: 0}\n"


def create(caller: Caller, project: int, **more: Any) -> str:
    body = {"config": CONFIG, "contextDirectory": [], "projectId": project, **more}
    return str(caller.post(f"{V}/generic-tasks", body)["taskId"])


def states(house: House, *tasks: str) -> list[str]:
    task_states = [house.admin.get(f"{V}/tasks/{id}")["task"]["taskState"] for id in tasks]
    return [str(state).removeprefix("GENERIC_TASK_STATE_") for state in task_states]


def editor_of_both(house: House) -> tuple[Caller, int]:
    caller = house.person("ada", "Editor", house.red)
    id = int(caller.get(f"{V}/me")["user"]["id"])
    house.assign("Editor", house.blue, user=id)
    return caller, id


def lose_blue(house: House, user_id: int, role: str = "") -> None:
    body = {
        "userId": user_id,
        "roleAssignment": {"role": {"roleId": 5}, "scopeWorkspaceId": house.blue},
    }
    house.admin.post(f"{V}/roles/remove-assignments", {"userRoleAssignments": [body]})
    if role:
        house.assign(role, house.blue, user=user_id)


@pytest.mark.parametrize(
    ("role", "status"), [("", 404), ("Viewer", 403), ("EditorRestricted", 403)]
)
def test_child_task_requires_rights_in_its_workspace(house: House, role: str, status: int) -> None:
    ada, id = editor_of_both(house)
    root = create(ada, house.red_project)
    lose_blue(house, id, role)
    body = {
        "config": CONFIG,
        "contextDirectory": [],
        "projectId": house.blue_project,
        "parentId": root,
    }
    assert ada.ask("POST", f"{V}/generic-tasks", body).status == status


@pytest.mark.parametrize(("action", "then"), [("pause", "PAUSED"), ("kill", "CANCELED")])
def test_tree_action_skips_tasks_in_workspaces_without_rights(
    house: House, action: str, then: str
) -> None:
    ada, id = editor_of_both(house)
    root = create(ada, house.red_project)
    here, there = (create(ada, p, parentId=root) for p in (house.red_project, house.blue_project))
    below = create(ada, house.red_project, parentId=there)
    lose_blue(house, id, "Viewer")
    ada.post(f"{V}/tasks/{root}/{action}", {"taskId": root} if action == "kill" else {})
    assert states(house, root, here, below, there) == [then, then, then, "ACTIVE"]
    house.admin.post(f"{V}/tasks/{there}/{action}", {"taskId": there})
    assert states(house, there) == [then]


def test_tree_kill_requires_rights_for_its_root(house: House) -> None:
    ada, id = editor_of_both(house)
    root = create(ada, house.blue_project)
    child = create(ada, house.red_project, parentId=root)
    lose_blue(house, id, "Viewer")
    body = {"taskId": child, "killFromRoot": True}
    assert ada.ask("POST", f"{V}/tasks/{child}/kill", body).status == 403
    assert states(house, root, child) == ["ACTIVE", "ACTIVE"]


def test_costs_and_histories_require_the_right_of_the_task_kind(house: House) -> None:
    """Today no role has only one of these rights. The checks for each kind of task must not depend on that."""
    task = create(house.admin, house.red_project)
    trial = trial_of(house.admin, house.experiment(house.admin, house.red_project))["taskId"]
    only = {
        right: frozenset({Right.VIEW_WORKSPACE, right})
        for right in (Right.VIEW_NSC, Right.VIEW_EXPERIMENT_METADATA)
    }
    caller = authentication.user_of(house.api.ctx, house.admin.token)
    metadata = Right.VIEW_EXPERIMENT_METADATA
    for right, visible, hidden in ((Right.VIEW_NSC, task, trial), (metadata, trial, task)):
        user = replace(caller, grants=Grants(frozenset(), {house.red: only[right]}))
        route_rights.require_things(house.api.ctx, user, metadata, "task", [visible])
        with pytest.raises(Missing):
            route_rights.require_things(house.api.ctx, user, metadata, "task", [hidden])
        everywhere = replace(caller, grants=Grants(only[right], {}))
        with pytest.raises((Missing, Forbidden)):
            route_rights.require_things(house.api.ctx, everywhere, metadata, "task", [hidden])
