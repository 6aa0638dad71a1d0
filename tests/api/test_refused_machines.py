"""Refusals of clouds and the affected pools; orphaned machines; lasting reasons."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Scope
from det_controlplane.db.engine.database import Database
from det_controlplane.ports.compute import Refusal
from det_controlplane.services.machines import calling
from det_controlplane.testing.fakecloud import CloudFaults

from tests.support.api import Api, Caller, create
from tests.support.rented import RentedCluster, offer, rented_cluster

A, B, C = (offer("0.40", zone=f"us-east-1{letter}") for letter in "abc")


@pytest.fixture
def cluster(database: Database, tmp_path: Path) -> Iterator[RentedCluster]:
    with rented_cluster(database, tmp_path, offers=(A, B, C)) as rented_machines:
        yield rented_machines


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def test_zone_recommended_by_the_cloud_is_tried_first(cluster: RentedCluster, user: Caller) -> None:
    alone = replace(cluster.api.ctx.config.resource_pools[0], offers=(A,))
    whole = cluster.api.ctx.config
    cluster.api.ctx.config = replace(whole, resource_pools=(alone,))
    cluster.cloud.refuse(Scope.of(A), RefusalKind.NO_CAPACITY, "1a is empty", ("us-east-1c",))
    create(user, activate=True)
    cluster.settle()
    assert not cluster.cloud.rented
    cluster.api.ctx.config = whole
    cluster.api.signed_in("admin").post("/api/v1/experiments/1/pause")
    cluster.api.signed_in("admin").post("/api/v1/experiments/1/activate")
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    assert machine.zone == "us-east-1c"


def test_invalid_section_of_one_pool_does_not_block_others(
    cluster: RentedCluster, user: Caller
) -> None:
    (pool,) = cluster.api.ctx.config.resource_pools
    other = replace(pool, pool_name="other")
    cluster.api.ctx.config = replace(cluster.api.ctx.config, resource_pools=(pool, other))
    cluster.cloud.refuse(Scope("aws"), RefusalKind.INVALID, "image ami-1 does not exist")
    create(user, activate=True)
    cluster.settle(6)
    assert not cluster.cloud.rented
    cluster.cloud.allow()
    create(user, resources={"resource_pool": "other"}, activate=True)
    cluster.settle(6)
    assert {i["pool"] for i in cluster.instances()} == {"other"}
    cooldowns = {p["name"]: p["cooldowns"] for p in user.get("/api/v1/rented-pools")["pools"]}
    assert (len(cooldowns["default"]), len(cooldowns["other"])) == (1, 0)


def test_cooldown_of_an_unknown_error_expires(cluster: RentedCluster, user: Caller) -> None:
    unknown = Refusal(RefusalKind.INVALID, Scope("aws"), "said (SomethingNew)", passing=True)
    cluster.cloud.refuse_with(unknown)
    create(user, activate=True)
    cluster.settle()
    assert not cluster.cloud.rented
    (pool,) = user.get("/api/v1/rented-pools")["pools"]
    assert all(cooldown["until"] for cooldown in pool["cooldowns"])
    cluster.cloud.allow()
    cluster.pass_time(minutes=4)
    cluster.settle()
    assert not cluster.cloud.rented
    cluster.pass_time(minutes=2)
    cluster.settle()
    assert cluster.cloud.rented


def test_lost_termination_of_an_orphan_is_repeated(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    cluster.cloud.launch(replace(machine.request, machine_id=uuid.uuid4()))
    user.post("/api/v1/experiments/1/kill")
    cluster.api.signed_in("admin").post(f"/api/v1/instances/{machine.request.machine_id}/terminate")
    cluster.pass_time(minutes=1)
    cluster.settle()
    cluster.pass_time(minutes=3)
    cluster.settle()
    stranger = replace(machine.request, machine_id=uuid.uuid4())
    cluster.cloud.launch(stranger)
    cluster.cloud.ends_are_lost = 1
    due_s = calling.run(cluster.api.ctx, {"aws": cluster.cloud})
    assert due_s is not None, "a machine may still be there that nobody asked for"
    cluster.pass_time(seconds=due_s)
    calling.run(cluster.api.ctx, {"aws": cluster.cloud})
    cluster.pass_time(minutes=1)
    assert not cluster.cloud.alive()
    assert calling.run(cluster.api.ctx, {"aws": cluster.cloud}) is None


def test_error_for_unknown_pool_lists_existing_pools(cluster: RentedCluster, user: Caller) -> None:
    response = user.ask("GET", "/api/v1/instances", query={"pool": ["defualt"]})
    assert response.status == 404
    assert "resource pool 'defualt' not found; this cluster has: default" in response.error
    assert user.get("/api/v1/instances", pool="default")["instances"] == []


def test_ended_machine_shows_why_it_was_drained(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    machine, agent = cluster.employ()
    cluster.cloud.faults = CloudFaults()
    agent.poll(leaving=True)
    cluster.settle()
    agent.finish()
    cluster.settle()
    instance = next(i for i in cluster.instances(all="true") if i["cloudId"] == machine.cloud_id)
    assert instance["state"] in ("TERMINATING", "GONE")
    assert instance["reason"] == "it is drained: the cloud takes the machine back"
