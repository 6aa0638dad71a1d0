"""The users and groups that may use a pool."""

from typing import Any

import pytest

from tests.support.api import Api, Caller, create
from tests.support.played_agent import PlayedAgent, task_of

ACCESS = "/api/v1/pools/reserved/access"
IN_POOL = {"resources": {"resource_pool": "reserved", "slots": 0}}


@pytest.fixture
def other(api: Api, admin: Caller) -> Caller:
    """A second user, in the group `research`."""
    rita = {"user": {"username": "rita", "active": True}, "password": "Long-enough-1"}
    made = admin.post("/api/v1/users", {**rita, "isHashed": False})
    admin.post("/api/v1/groups", {"name": "research", "addUsers": [made["user"]["id"]]})
    return api.signed_in("rita", "Long-enough-1")


def experiment_error(caller: Caller) -> str:
    with pytest.raises(AssertionError) as refused:
        create(caller, resources={"resource_pool": "reserved"})
    return str(refused.value).replace("\\'", "'")


def test_pools_are_open_by_default(user: Caller) -> None:
    assert user.get(ACCESS)["access"] == {"restricted": False, "users": [], "groups": []}
    create(user, resources={"resource_pool": "reserved"})


def test_a_person_without_access_is_refused_with_the_way_out(
    admin: Caller, user: Caller, other: Caller
) -> None:
    admin.post(ACCESS, {"groups": ["research"], "users": ["admin"]})
    error = experiment_error(user)
    assert "'reserved' is restricted to group research and user admin" in error
    assert "you may use: default" in error
    create(other, resources={"resource_pool": "reserved"})


@pytest.mark.parametrize(
    "kind", ["commands", "notebooks", "shells", "tensorboards", "generic-tasks"]
)
def test_every_kind_of_task_is_refused(admin: Caller, user: Caller, kind: str) -> None:
    admin.post(ACCESS, {"users": ["admin"]})
    body: dict[str, Any] = {"config": {**IN_POOL, "entrypoint": ["true"]}}
    if kind == "generic-tasks":
        body = {"config": "entrypoint: ['true']\nresources: {resource_pool: reserved, slots: 0}\n"}
    if kind == "tensorboards":
        body = {"config": IN_POOL, "experimentIds": [create(user)]}
    if kind in ("notebooks", "shells"):
        body = {"config": IN_POOL}
    response = user.ask("POST", f"/api/v1/{kind}", body)
    assert (response.status, "restricted to user admin" in response.error) == (400, True)


def test_work_does_not_move_into_a_closed_pool(admin: Caller, user: Caller) -> None:
    experiment = create(user, activate=True)
    admin.post(ACCESS, {"users": ["admin"]})
    job = user.get(f"/api/v1/experiments/{experiment}")["experiment"]["jobId"]
    move = {"updates": [{"jobId": job, "resourcePool": "reserved"}]}
    response = user.ask("POST", "/api/v1/job-queues", move)
    assert (response.status, "is restricted to user admin" in response.error) == (400, True)
    admin.post("/api/v1/job-queues", move)


def test_templates_and_default_pools_are_checked(api: Api, admin: Caller, user: Caller) -> None:
    template = {"name": "big", "config": {"resources": {"resource_pool": "reserved"}}}
    user.post("/api/v1/templates/big", template)
    admin.post(ACCESS, {"users": ["admin"]})
    body = {
        "config": "entrypoint: 'true'\nsearcher: {name: single, metric: loss}\n",
        "template": "big",
    }
    assert "restricted" in user.ask("POST", "/api/v1/experiments", body).error
    admin.done("PUT", "/api/v1/pools/reserved/default", {"compute": True})
    with pytest.raises(AssertionError, match="is restricted to user admin"):
        create(user)
    create(user, resources={"resource_pool": "default"})


def test_work_keeps_running_when_access_is_revoked(api: Api, admin: Caller, user: Caller) -> None:
    admin.post(ACCESS, {"users": ["determined"]})
    agent = PlayedAgent(api, "a1")
    agent.join("reserved")
    experiment = create(user, activate=True, resources={"resource_pool": "reserved"})
    queued = create(
        user, activate=True, resources={"resource_pool": "reserved", "slots_per_trial": 2}
    )
    api.tick()
    agent.poll()
    admin.post(f"{ACCESS}/revoke", {"users": ["determined"]})
    assert admin.get(ACCESS)["access"] == {"restricted": True, "users": [], "groups": []}
    (order,) = agent.poll()
    assert (order["desired"], order["preempt"]) == ("running", False)
    (why,) = user.get(f"/api/v1/why/experiment/{queued}")["reasons"]
    assert "starts when slots are freed" in why["sentence"]
    user.post(f"/api/v1/experiments/{experiment}/pause")
    user.post(f"/api/v1/experiments/{experiment}/activate")
    assert "restricted to administrators" in experiment_error(user)


def test_an_ended_experiment_is_not_continued_in_a_closed_pool(
    api: Api, admin: Caller, user: Caller
) -> None:
    experiment = create(user, resources={"resource_pool": "reserved"})
    user.post(f"/api/v1/experiments/{experiment}/kill")
    admin.post(ACCESS, {"users": ["admin"]})
    response = user.ask(
        "POST", "/api/v1/experiments/continue", {"id": experiment, "overrideConfig": ""}
    )
    assert (response.status, "restricted to user admin" in response.error) == (400, True)
    body = {"id": experiment, "overrideConfig": "resources: {resource_pool: default}"}
    user.post("/api/v1/experiments/continue", body)
    user.post(f"/api/v1/experiments/{experiment}/kill")
    body["overrideConfig"] = "resources: {resource_pool: reserved}"
    response = user.ask("POST", "/api/v1/experiments/continue", body)
    assert "restricted to user admin" in response.error


def test_administrators_use_every_pool_and_their_tasks_do_not(api: Api, admin: Caller) -> None:
    admin.post(ACCESS, {})
    create(admin, resources={"resource_pool": "reserved"})
    task, _ = task_of(api, admin)
    assert "restricted to administrators" in experiment_error(task)


def test_a_pool_opens_again(admin: Caller, user: Caller) -> None:
    admin.post(ACCESS, {"users": ["admin"]})
    admin.done("DELETE", ACCESS)
    create(user, resources={"resource_pool": "reserved"})


def test_lists_name_existing_holders_only(admin: Caller, user: Caller) -> None:
    missing = admin.ask("POST", ACCESS, {"users": ["nobody"], "groups": ["none"]})
    assert (missing.status, missing.error) == (404, "user 'nobody', group 'none' not found")
    early = admin.ask("POST", f"{ACCESS}/revoke", {"users": ["admin"]})
    assert "is open to everybody" in early.error
    admin.post(ACCESS, {"users": ["admin"]})
    unlisted = admin.ask("POST", f"{ACCESS}/revoke", {"users": ["determined"]})
    assert (unlisted.status, "not in the list" in unlisted.error) == (404, True)
    assert user.ask("POST", ACCESS, {"users": ["determined"]}).status == 403
    unknown = admin.ask("POST", "/api/v1/pools/nowhere/access", {"users": ["admin"]})
    assert unknown.status == 404


def test_lists_of_pools_show_who_may_use_them(admin: Caller, user: Caller, other: Caller) -> None:
    admin.post(ACCESS, {"groups": ["research"]})
    expected = {"restricted": True, "users": [], "groups": ["research"]}
    pools = {p["name"]: p for p in user.get("/api/v1/pools")["pools"]}
    assert pools["reserved"]["access"] == expected
    stock = {p["name"]: p for p in user.get("/api/v1/resource-pools")["resourcePools"]}
    assert stock["reserved"]["access"] == expected
    available = user.get("/api/v1/workspaces/1/available-resource-pools")["resourcePools"]
    assert available == ["default"]
    available = other.get("/api/v1/workspaces/1/available-resource-pools")["resourcePools"]
    assert available == ["default", "reserved"]


def test_bindings_of_workspaces_still_count(admin: Caller, user: Caller) -> None:
    space = admin.post("/api/v1/workspaces", {"name": "team"})["workspace"]["id"]
    binding = {"resourcePoolName": "reserved", "workspaceIds": [space]}
    admin.post("/api/v1/resource-pools/reserved/workspace-bindings", binding)
    admin.post(ACCESS, {"users": ["determined"]})
    assert "reserved for other workspaces" in experiment_error(user)


def test_access_ends_with_its_user_and_group(admin: Caller, other: Caller) -> None:
    admin.post(ACCESS, {"groups": ["research"], "users": ["admin"]})
    (group,) = admin.post("/api/v1/groups/search", {"limit": 10})["groups"]
    admin.done("DELETE", f"/api/v1/groups/{group['group']['groupId']}")
    assert admin.get(ACCESS)["access"] == {"restricted": True, "users": ["admin"], "groups": []}
    assert "restricted to user admin" in experiment_error(other)
