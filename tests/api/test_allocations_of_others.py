"""Only the tasks of an allocation, its owner and administrators change the allocation; readers may look at it."""

from typing import Any
from uuid import uuid4

import pytest
from det_controlplane.api import routes

from tests.support.api import Api, Caller, create
from tests.support.house import House
from tests.support.played_agent import PlayedAgent

PLACE = "/api/v1/allocations/"
READING = {"allocations/{allocationId}", "allocations/{allocationId}/signals/preemption"}
GATHER = {"requestUuid": str(uuid4()), "numPeers": 1, "data": "a value"}
CHANGES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("POST", "acceleratorData", {}),
    ("POST", "all_gather", GATHER),
    ("POST", "hang", {}),
    ("POST", "notify_container_running", GATHER),
    ("POST", "progress", {"ageSeconds": 1}),
    ("POST", "proxy_address", {}),
    ("POST", "ready", {}),
    ("POST", "replica", {"stepsCompleted": 1}),
    ("POST", "resources/{resourcesId}/daemon", {}),
    ("GET", "resources/{resourcesId}/rendezvous", {}),
    ("POST", "signals/ack_preemption", {}),
    ("POST", "signals/pending_preemption", {}),
    ("POST", "waiting", {}),
)


class Running:
    """The allocation of an agent's newest container."""

    def __init__(self, api: Api, agent: PlayedAgent) -> None:
        known_ids = set(agent.containers)
        api.tick()
        (order,) = (order for order in agent.poll() if order["id"] not in known_ids)
        agent.poll()  # reports it as running
        self.id = str(order["spec"]["allocation_id"])
        self.task = api.with_token(order["spec"]["session_token"])
        self._resources = order["id"]

    def status(self, caller: Caller, method: str, route: str, body: dict[str, Any]) -> int:
        path = f"{PLACE}{self.id}/{route.format(resourcesId=self._resources)}"
        return caller.ask(method, path, body or None).status


def joined(api: Api) -> PlayedAgent:
    agent = PlayedAgent(api, "agent")
    agent.join()
    return agent


def test_every_route_that_changes_an_allocation_is_tested() -> None:
    changes = {
        (route.method, path)
        for route in routes.every()
        if (path := route.path.removeprefix("/api/v1/")).startswith("allocations/")
        and path not in READING
    }
    assert changes == {(m, f"allocations/{{allocationId}}/{route}") for m, route, _ in CHANGES}


@pytest.mark.parametrize(("method", "route", "body"), CHANGES)
def test_only_task_owner_and_administrators_change_an_allocation(
    api: Api, admin: Caller, user: Caller, method: str, route: str, body: dict[str, Any]
) -> None:
    agent = joined(api)
    create(admin, activate=True)
    run = Running(api, agent)
    assert run.status(user, method, route, body) == 403
    for caller in (run.task, admin):
        assert run.status(caller, method, route, body) == 200
    create(user, activate=True)
    own = Running(api, agent)
    for caller in (own.task, user, admin):
        assert own.status(caller, method, route, body) == 200
    assert own.status(run.task, method, route, body) == 403


def test_error_names_the_allocation_and_the_permitted_callers(
    api: Api, admin: Caller, user: Caller
) -> None:
    create(admin, activate=True)
    run = Running(api, joined(api))
    refusal = user.ask("POST", f"{PLACE}{run.id}/ready", {})
    assert refusal.error == (
        f"allocation {run.id} of another user takes reports from its own tasks, its owner and administrators only;"
        " you are signed in as determined"
    )
    assert user.ask("POST", f"{PLACE}no-such-allocation/ready", {}).status == 404


def test_only_its_own_task_marks_a_notebook_as_ready(api: Api, admin: Caller, user: Caller) -> None:
    admin.post("/api/v1/notebooks", {})
    run = Running(api, joined(api))
    assert run.status(user, "POST", "ready", {}) == 403
    assert not user.get(PLACE + run.id)["allocation"]["isReady"]
    assert run.status(run.task, "POST", "ready", {}) == 200
    assert user.get(PLACE + run.id)["allocation"]["isReady"]


def test_other_users_read_the_state_and_the_preemption_of_an_allocation(
    api: Api, admin: Caller, user: Caller
) -> None:
    create(admin, activate=True)
    run = Running(api, joined(api))
    assert user.get(PLACE + run.id)["allocation"]["allocationId"] == run.id
    assert user.get(f"{PLACE}{run.id}/signals/preemption") == {"preempt": False}


def test_with_roles_administrators_of_the_workspace_change_allocations(house: House) -> None:
    people = {
        role: house.person(role.lower(), role, house.red)
        for role in ("Viewer", "Editor", "WorkspaceAdmin")
    }
    stranger = house.person("stranger", "WorkspaceAdmin", house.blue)
    create(house.admin, activate=True, workspace="red", project="work")
    run = Running(house.api, joined(house.api))
    statuses = {role: run.status(caller, "POST", "ready", {}) for role, caller in people.items()}
    assert statuses == {"Viewer": 403, "Editor": 403, "WorkspaceAdmin": 200}
    assert run.status(stranger, "POST", "ready", {}) == 404
    assert people["Viewer"].get(PLACE + run.id)["allocation"]["allocationId"] == run.id
