"""Pools that are created, changed, adopted and deleted without a restart."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml
from det_controlplane.api.app import App
from det_controlplane.core.config.cluster import ClusterConfig, load_cluster
from det_controlplane.db.scheduling import resource_pools
from det_controlplane.ports.identity import IdentityVerifier
from det_controlplane.services.memory import ProcessMemory
from determined.experimental.client import Determined

from tests.support.api import PASSWORD, Api, ApiResponse, Caller, create
from tests.support.played_agent import PlayedAgent
from tests.support.rented import RentedCluster, reason
from tests.support.served_api import served

POOLS = "/api/v1/pools"
EC2 = {"type": "aws", "region": "us-east-1", "instance_type": "g5.xlarge", "max_instances": 2}
RENTED = {"pool_name": "big", "provider": EC2}


def put_pool(admin: Caller, name: str = "lab", **settings: Any) -> dict[str, Any]:
    body = {"config": yaml.safe_dump({"pool_name": name, **settings})}
    pool: dict[str, Any] = admin.post(POOLS, body)["pool"]
    return pool


def experiment_of(order: dict[str, Any]) -> int:
    return int(order["spec"]["env"]["DET_EXPERIMENT_ID"])


def machines(cluster: RentedCluster) -> list[str]:
    """Return the types of the machines that cost money after the ordered ends."""
    cluster.pass_time(minutes=2)
    return [machine.offer.machine_type for machine in cluster.cloud.alive()]


def refused(response: ApiResponse, status: int = 400) -> str:
    assert response.status == status, response.body
    return response.error


def names(caller: Caller) -> list[str]:
    return [pool["name"] for pool in caller.get(POOLS)["pools"]]


def process(api: Api, admin: Caller) -> Caller:
    """Return the same user at another process of the API, which has read nothing yet."""
    ctx = replace(api.ctx, memory=ProcessMemory())
    return Caller(App(ctx, api.app.router), admin.token)


def test_a_new_pool_is_listed_beside_the_configured_ones(admin: Caller, user: Caller) -> None:
    pool = put_pool(admin, description="for the lab")
    assert (pool["source"], pool["kind"], pool["createdBy"]) == ("database", "static", "admin")
    assert names(user) == ["default", "reserved", "lab"]
    stock = {p["name"]: p for p in user.get("/api/v1/resource-pools")["resourcePools"]}
    assert stock["lab"]["description"] == "for the lab"
    assert (stock["lab"]["source"], stock["default"]["source"]) == ("database", "configuration")


def test_work_of_a_new_pool_runs_without_a_restart(api: Api, admin: Caller, user: Caller) -> None:
    put_pool(admin)
    agent = PlayedAgent(api, "a1")
    agent.join("lab")
    experiment = create(user, activate=True, resources={"resource_pool": "lab"})
    api.tick()
    (order,) = agent.poll()
    assert experiment_of(order) == experiment


def test_other_processes_see_a_change_with_their_next_request(api: Api, admin: Caller) -> None:
    other = process(api, admin)
    assert names(other) == ["default", "reserved"]
    put_pool(admin)
    assert names(other) == ["default", "reserved", "lab"]
    admin.done("PATCH", f"{POOLS}/lab", {"settings": {"description": "changed"}})
    assert other.get(f"{POOLS}/lab")["pool"]["description"] == "changed"
    admin.done("DELETE", f"{POOLS}/lab")
    assert names(other) == ["default", "reserved"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pool_name": "lab", "descripton": "x"}, "did you mean 'description'"),
        ({"pool_name": "lab", "warm_instances": 2}, "this pool rents no machines"),
        ({"pool_name": "lab", "max_instances": 2}, "max_instances: needs a provider or offers"),
        ({"pool_name": "a/b"}, "letters, digits"),
        ({}, "letters, digits"),
        ({"pool_name": "lab", "provider": {"type": "azure"}}, "aws or gcp, not 'azure'"),
        ({"pool_name": "lab", "task_container_defaults": {"image": 7}}, "task_container_defaults"),
        ({"pool_name": "default"}, "det pool adopt default"),
        (
            {"pool_name": "lab", "scheduler": {"type": "priority", "default_priority": 1000}},
            "scheduler.default_priority",
        ),
    ],
)
def test_bad_settings_are_refused_with_the_cause(
    admin: Caller, settings: dict[str, Any], message: str
) -> None:
    response = admin.ask("POST", POOLS, {"settings": settings})
    assert response.status in (400, 409)
    assert message in response.error
    assert names(admin) == ["default", "reserved"]


def test_a_pool_has_the_same_problems_as_in_the_configuration(admin: Caller) -> None:
    settings = {
        "pool_name": "lab",
        "provider": {"type": "aws", "region": "nowhere"},
        "offers": [],
        "x": 1,
    }
    with pytest.raises(Exception, match="invalid cluster configuration") as configured:
        load_cluster({"resource_pools": [settings]})
    error = refused(admin.ask("POST", POOLS, {"settings": settings}))
    lines = str(configured.value).replace("resource_pools[0].", "").splitlines()[1:]
    assert sorted(error.splitlines()[1:]) == sorted(lines)


def test_a_name_can_be_taken_once(admin: Caller) -> None:
    put_pool(admin)
    again = admin.ask("POST", POOLS, {"settings": {"pool_name": "lab"}})
    assert "det pool update lab" in refused(again, 409)


def test_only_administrators_change_pools(user: Caller, admin: Caller) -> None:
    put_pool(admin)
    for method, path in (
        ("POST", POOLS), ("PATCH", f"{POOLS}/lab"), ("PUT", f"{POOLS}/lab"), ("DELETE", f"{POOLS}/lab"),
        ("POST", f"{POOLS}/default/adopt"), ("POST", f"{POOLS}/lab/release"), ("POST", f"{POOLS}/lab/keep"),
    ):  # fmt: skip
        body = {"settings": {"pool_name": "mine"}} if method != "DELETE" else None
        assert user.ask(method, path, body).status == 403
    assert user.get(f"{POOLS}/lab")["pool"]["settings"] is None


def test_changes_are_merged_and_null_removes(admin: Caller) -> None:
    put_pool(admin, description="old", max_aux_containers_per_agent=5)
    changes = {"description": None, "scheduler": {"type": "fair_share"}}
    pool = admin.done("PATCH", f"{POOLS}/lab", {"settings": changes})["pool"]
    assert pool["settings"] == {
        "pool_name": "lab",
        "max_aux_containers_per_agent": 5,
        "scheduler": {"type": "fair_share"},
    }
    replaced = admin.done("PUT", f"{POOLS}/lab", {"settings": {"description": "new"}})["pool"]
    assert replaced["settings"] == {"pool_name": "lab", "description": "new"}


def test_a_pool_keeps_its_name(admin: Caller) -> None:
    put_pool(admin)
    response = admin.ask("PATCH", f"{POOLS}/lab", {"settings": {"pool_name": "other"}})
    assert "must stay 'lab'" in refused(response)


def test_validation_changes_nothing(admin: Caller) -> None:
    answer = admin.post(POOLS, {"settings": RENTED, "validateOnly": True})["pool"]
    assert answer["offers"] == 1
    assert names(admin) == ["default", "reserved"]


def test_secrets_of_a_pool_are_encrypted_and_kept_by_changes(api: Api, admin: Caller) -> None:
    registry = {"username": "me", "password": "hunter2", "serveraddress": "registry.example"}
    defaults = {"registry_auth": registry}
    put_pool(admin, task_container_defaults=defaults)
    shown = admin.get(f"{POOLS}/lab")["pool"]["settings"]
    assert shown["task_container_defaults"]["registry_auth"]["password"] == "********"
    with api.ctx.db.autocommit() as tx:
        (row,) = resource_pools.every(tx)
    assert "hunter2" not in str(row)
    admin.done("PUT", f"{POOLS}/lab", {"settings": {**shown, "description": "changed"}})
    agent = PlayedAgent(api, "a1")
    agent.join("lab")
    create(admin, activate=True, resources={"resource_pool": "lab"})
    api.tick()
    (order,) = agent.poll()
    assert order["spec"]["registry_auth"]["password"] == "hunter2"


class _Clouds:
    """Rights on AWS only."""

    def prepare(self, pools: Iterable[Mapping[str, Any]]) -> list[str]:
        return []

    def refusal(self, provider: str) -> str:
        return "" if provider == "aws" else f"this cluster has no rights on {provider}"

    def identities(self, config: ClusterConfig) -> Mapping[str, IdentityVerifier]:
        return {}


def test_a_cloud_without_a_provisioner_is_refused(api: Api, admin: Caller) -> None:
    api.ctx.clouds = _Clouds()
    google = {
        "type": "gcp",
        "project": "p",
        "zone": "us-central1-a",
        "instance_type": {"machine_type": "a2-highgpu-1g"},
    }
    settings = {"pool_name": "google", "provider": google}
    assert "no rights on gcp" in refused(admin.ask("POST", POOLS, {"settings": settings}))
    admin.post(POOLS, {"settings": RENTED})


def test_a_new_pool_rents_a_machine_and_runs_work_without_a_restart(cluster: RentedCluster) -> None:
    admin, user = cluster.api.signed_in("admin"), cluster.api.signed_in("determined")
    admin.post(POOLS, {"settings": RENTED})
    experiment = create(user, activate=True, resources={"resource_pool": "big"})
    machine, agent = cluster.employ()
    (instance,) = cluster.instances()
    assert (instance["pool"], instance["machineType"]) == ("big", "g5.xlarge")
    assert [experiment_of(order) for order in agent.running.values()] == [experiment]
    pool = user.get(f"{POOLS}/big")["pool"]
    assert pool["rented"]["instances"] == 1
    assert machine.offer.machine_type == "g5.xlarge"


def test_a_changed_type_is_for_new_machines_only(cluster: RentedCluster) -> None:
    admin, user = cluster.api.signed_in("admin"), cluster.api.signed_in("determined")
    admin.post(POOLS, {"settings": RENTED})
    create(user, activate=True, resources={"resource_pool": "big"})
    cluster.employ()
    provider = {"instance_type": "g6.xlarge"}
    admin.done("PATCH", f"{POOLS}/big", {"settings": {"provider": provider}})
    create(user, activate=True, resources={"resource_pool": "big"})
    cluster.settle()
    types = sorted((i["machineType"], i["state"]) for i in cluster.instances())
    assert types == [("g5.xlarge", "REGISTERED"), ("g6.xlarge", "LAUNCHED")]


def test_replaced_machines_finish_their_work_first(cluster: RentedCluster) -> None:
    admin, user = cluster.api.signed_in("admin"), cluster.api.signed_in("determined")
    admin.post(POOLS, {"settings": RENTED})
    create(user, activate=True, resources={"resource_pool": "big"})
    _, agent = cluster.employ()
    change = {"settings": {"description": "x"}, "replaceMachines": True}
    admin.done("PATCH", f"{POOLS}/big", change)
    cluster.settle()
    (order,) = agent.poll()
    assert (order["desired"], order["preempt"]) == ("running", False)
    (instance,) = cluster.instances()
    assert (instance["state"], instance["reason"]) == (
        "DRAINING",
        "the settings of its pool changed",
    )
    agent.finish()
    cluster.settle()
    assert machines(cluster) == []


def test_requested_machines_are_decided_again_after_a_change(cluster: RentedCluster) -> None:
    admin, user = cluster.api.signed_in("admin"), cluster.api.signed_in("determined")
    admin.post(POOLS, {"settings": RENTED})
    create(user, activate=True, resources={"resource_pool": "big"})
    cluster.decide()
    change = {"settings": {"provider": {"instance_type": "g6.xlarge"}}}
    admin.done("PATCH", f"{POOLS}/big", change)
    cluster.settle()
    assert [m.offer.machine_type for m in cluster.cloud.alive()] == ["g6.xlarge"]


def test_a_lower_maximum_applies_to_running_machines(cluster: RentedCluster) -> None:
    admin, user = cluster.api.signed_in("admin"), cluster.api.signed_in("determined")
    admin.post(POOLS, {"settings": RENTED})
    create(user, activate=True, resources={"resource_pool": "big"})
    create(user, activate=True, resources={"resource_pool": "big"})
    cluster.settle()
    assert len(cluster.cloud.alive()) == 2
    change = {"settings": {"provider": {"max_instances": 1}}}
    admin.done("PATCH", f"{POOLS}/big", change)
    cluster.settle()
    assert machines(cluster) == ["g5.xlarge"]


def test_a_pool_in_use_is_not_deleted(api: Api, admin: Caller, user: Caller) -> None:
    put_pool(admin)
    create(user, activate=True, resources={"resource_pool": "lab"})
    create(user, resources={"resource_pool": "lab"})
    api.tick()
    error = refused(admin.ask("DELETE", f"{POOLS}/lab"))
    assert "1 run in its queue, 1 active experiment, 1 paused experiment" in error
    assert "--drain" in error
    assert "lab" in names(admin)


def test_a_draining_pool_ends_with_its_work(cluster: RentedCluster) -> None:
    admin, user = cluster.api.signed_in("admin"), cluster.api.signed_in("determined")
    admin.post(POOLS, {"settings": {**RENTED, "warm_instances": 1}})
    create(user, activate=True, resources={"resource_pool": "big"})
    _, agent = cluster.employ()
    answer = admin.done("DELETE", f"{POOLS}/big", query={"drain": ["true"]})
    assert answer == {"completed": False}
    request = {"config": {"resources": {"resource_pool": "big"}, "entrypoint": ["true"]}}
    error = refused(user.ask("POST", "/api/v1/commands", request))
    assert "'big' is being deleted and takes no new work; you may use: default" in error
    cluster.settle()
    assert user.get(f"{POOLS}/big")["pool"]["state"] == "leaving"
    assert len(agent.poll()) == 1
    agent.finish()
    cluster.settle()
    assert names(admin) == ["default"]
    cluster.settle()
    assert machines(cluster) == []


def test_a_deletion_can_be_called_off(api: Api, admin: Caller, user: Caller) -> None:
    put_pool(admin)
    create(user, activate=True, resources={"resource_pool": "lab"})
    admin.done("DELETE", f"{POOLS}/lab", query={"drain": ["true"]})
    error = refused(admin.ask("PATCH", f"{POOLS}/lab", {"settings": {"description": "x"}}))
    assert "--cancel" in error
    assert admin.post(f"{POOLS}/lab/keep")["pool"]["state"] == "ready"
    create(user, activate=True, resources={"resource_pool": "lab"})


def test_agents_of_a_deleted_pool_need_a_new_one(api: Api, admin: Caller) -> None:
    put_pool(admin)
    agent = PlayedAgent(api, "a1")
    agent.join("lab")
    error = refused(admin.ask("DELETE", f"{POOLS}/lab"))
    assert "1 agent that the pool does not rent (a1)" in error
    admin.done("DELETE", f"{POOLS}/lab", query={"agentsTo": ["reserved"]})
    assert admin.get("/api/v1/agents/a1")["agent"]["resourcePools"] == ["reserved"]
    agent.join("lab")
    assert admin.get("/api/v1/agents/a1")["agent"]["resourcePools"] == ["reserved"]


def test_a_pool_that_gets_the_agents_of_a_leaving_one_stays(
    api: Api, admin: Caller, user: Caller
) -> None:
    put_pool(admin)
    put_pool(admin, "target")
    agent = PlayedAgent(api, "a1")
    agent.join("lab")
    create(user, activate=True, resources={"resource_pool": "lab"})
    api.tick()
    agent.poll()
    query = {"drain": ["true"], "agentsTo": ["target"]}
    admin.done("DELETE", f"{POOLS}/lab", query=query)
    error = refused(admin.ask("DELETE", f"{POOLS}/target"))
    assert "gets the agents of pool 'lab', which is being deleted" in error
    settings = {"provider": RENTED["provider"]}
    error = refused(admin.ask("PATCH", f"{POOLS}/target", {"settings": settings}))
    assert "gets the agents of pool 'lab'" in error
    admin.done("DELETE", f"{POOLS}/lab", query=query | {"agentsTo": ["reserved"]})
    admin.done("DELETE", f"{POOLS}/target")


def test_agents_that_join_a_leaving_pool_keep_it(api: Api, admin: Caller, user: Caller) -> None:
    put_pool(admin)
    experiment = create(user, activate=True, resources={"resource_pool": "lab"})
    admin.done("DELETE", f"{POOLS}/lab", query={"drain": ["true"]})
    PlayedAgent(api, "a1").join("lab")
    user.post(f"/api/v1/experiments/{experiment}/kill")
    api.tick()
    assert "lab" in names(admin)
    admin.done("DELETE", f"{POOLS}/lab", query={"agentsTo": ["default"]})
    assert names(admin) == ["default", "reserved"]


def test_a_pool_does_not_rent_while_agents_move_to_it(
    api: Api, admin: Caller, user: Caller, agent: PlayedAgent
) -> None:
    put_pool(admin)
    create(user, activate=True)
    api.tick()
    agent.poll()
    admin.post("/api/v1/agents/a1/move", {"pool": "lab"})
    settings = {"provider": RENTED["provider"]}
    error = refused(admin.ask("PATCH", f"{POOLS}/lab", {"settings": settings}))
    assert "has or gets agents that are not rented (a1)" in error


def test_a_move_meets_a_pool_that_another_process_just_deleted(
    api: Api, admin: Caller, agent: PlayedAgent
) -> None:
    put_pool(admin)
    with api.ctx.db.begin() as tx:
        resource_pools.remove(tx, "lab")
    error = refused(admin.ask("POST", "/api/v1/agents/a1/move", {"pool": "lab"}))
    assert "takes no agents any more" in error


def test_default_pools_are_chosen_without_a_restart(api: Api, admin: Caller, user: Caller) -> None:
    put_pool(admin)
    admin.done("PUT", f"{POOLS}/lab/default", {"compute": True})
    experiment = create(user)
    row = user.get(f"/api/v1/experiments/{experiment}")["experiment"]
    assert row["resourcePool"] == "lab"
    error = refused(admin.ask("DELETE", f"{POOLS}/lab"))
    assert "default compute pool" in error
    admin.done("PUT", f"{POOLS}/reserved/default", {"compute": True})


def test_a_default_of_a_workspace_is_not_deleted(admin: Caller) -> None:
    put_pool(admin)
    admin.post("/api/v1/workspaces", {"name": "team", "defaultComputePool": "lab"})
    assert "workspace team" in refused(admin.ask("DELETE", f"{POOLS}/lab"))


def test_bindings_budgets_and_lists_end_with_their_pool(admin: Caller) -> None:
    put_pool(admin)
    binding = {"resourcePoolName": "lab", "workspaceIds": [1]}
    admin.post("/api/v1/resource-pools/lab/workspace-bindings", binding)
    admin.done(
        "PUT", "/api/v1/budgets", {"scope": "pool", "of": "lab", "limitUsd": "5", "period": "month"}
    )
    admin.post(f"{POOLS}/lab/access", {"users": ["determined"]})
    admin.done("DELETE", f"{POOLS}/lab")
    assert admin.get("/api/v1/budgets")["budgets"] == []
    put_pool(admin)
    pool = admin.get(f"{POOLS}/lab")["pool"]
    assert (pool["workspaces"], pool["access"]["restricted"]) == ([], False)


def test_an_adopted_pool_is_changed_without_a_restart(
    api: Api, admin: Caller, user: Caller
) -> None:
    pool = admin.post(f"{POOLS}/reserved/adopt")["pool"]
    assert (pool["source"], pool["adopted"], pool["ignoresEntry"]) == ("database", True, True)
    assert pool["settings"] == {"pool_name": "reserved"}
    admin.done("PATCH", f"{POOLS}/reserved", {"settings": {"description": "ours"}})
    pools = [{"pool_name": "default"}, {"pool_name": "reserved", "description": "file"}]
    config = load_cluster({"resource_pools": pools})
    api.ctx.config = replace(config, checkpoint_storage=api.ctx.config.checkpoint_storage)
    assert user.get(f"{POOLS}/reserved")["pool"]["description"] == "ours"
    error = refused(admin.ask("DELETE", f"{POOLS}/reserved"))
    assert "det pool release reserved" in error
    returned = admin.post(f"{POOLS}/reserved/release")["pool"]
    assert (returned["source"], returned["description"]) == ("configuration", "file")


def test_an_adopted_pool_without_an_entry_is_the_databases_own(api: Api, admin: Caller) -> None:
    admin.post(f"{POOLS}/reserved/adopt")
    config = load_cluster({"resource_pools": [{"pool_name": "default"}]})
    api.ctx.config = replace(config, checkpoint_storage=api.ctx.config.checkpoint_storage)
    assert names(admin) == ["default", "reserved"]
    assert "has no pool 'reserved'" in refused(admin.ask("POST", f"{POOLS}/reserved/release"))
    admin.done("DELETE", f"{POOLS}/reserved")
    assert names(admin) == ["default"]


def test_pools_of_the_configuration_are_not_changed_in_place(admin: Caller) -> None:
    response = admin.ask("PATCH", f"{POOLS}/reserved", {"settings": {"description": "x"}})
    assert "det pool adopt reserved" in refused(response)
    missing = admin.ask("PATCH", f"{POOLS}/nowhere", {"settings": {}})
    assert "this cluster has: default, reserved" in refused(missing, 404)


def test_settings_that_this_version_cannot_read_rent_nothing(api: Api, admin: Caller) -> None:
    now = api.ctx.now()
    with api.ctx.db.begin() as tx:
        resource_pools.create(tx, "odd", {"pool_name": "odd", "unheard": 1}, "", 1, now)
        resource_pools.count_change(tx)
    pool = admin.get(f"{POOLS}/odd")["pool"]
    assert "unheard: is unknown" in pool["problem"]
    fixed = admin.done("PUT", f"{POOLS}/odd", {"settings": {"description": "fixed"}})["pool"]
    assert fixed["problem"] == ""


def test_changes_of_pools_are_audited(admin: Caller) -> None:
    put_pool(admin, description="x")
    admin.done("PATCH", f"{POOLS}/lab", {"settings": {"description": "y"}})
    admin.done("DELETE", f"{POOLS}/lab")
    entries = admin.get("/api/v1/audit")["entries"]
    actions = [(e["action"], e["object"]) for e in entries if e["action"].startswith("pool.")]
    expected = [("pool.delete", "pool lab"), ("pool.edit", "pool lab"), ("pool.create", "pool lab")]
    assert sorted(actions) == sorted(expected)


def test_why_names_the_pools_that_there_are_now(api: Api, admin: Caller, user: Caller) -> None:
    put_pool(admin)
    experiment = create(user, activate=True, resources={"resource_pool": "lab"})
    api.tick()
    assert "the pool has no agent with slots" in reason(user, experiment)


def test_the_sdk_creates_changes_and_deletes_pools(api: Api) -> None:
    with served(api) as url:
        sdk = Determined(url, "admin", PASSWORD)
        pool = sdk.create_resource_pool({"pool_name": "lab"})
        assert "lab" in [one.name for one in sdk.list_resource_pools()]
        assert pool.update({"description": "ours"})["description"] == "ours"
        pool.grant_access(users=["determined"])
        assert pool.list_access()["users"] == ["determined"]
        pool.revoke_access(users=["determined"])
        pool.open_access()
        assert pool.describe()["access"]["restricted"] is False
        assert pool.delete() is True
        next(one for one in sdk.list_resource_pools() if one.name == "reserved").adopt()
        assert api.signed_in("admin").get(f"{POOLS}/reserved")["pool"]["adopted"] is True
