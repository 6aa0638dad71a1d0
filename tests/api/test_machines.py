"""Machines are rented when jobs wait, join by proof, are replaced after a reclaim, and are terminated when idle."""

import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from det_controlplane.core.provision.cooldown import after_refusal
from det_controlplane.core.provision.model import Limits, RefusalKind
from det_controlplane.core.provision.offers import Scope
from det_controlplane.db.engine.database import Database
from det_controlplane.db.machines import failed_offers
from det_controlplane.testing.fakecloud import CloudFaults
from det_provisioner_aws.identity import AwsIdentityVerifier, Trusted

from tests.support.api import Api, ApiResponse, Caller, config_of, create
from tests.support.rented import (
    START,
    BelievingVerifier,
    RentedCluster,
    offer,
    reason,
    rented_cluster,
)


class Wheel:
    """A wheel of which no byte is asked for."""

    def name(self) -> str:
        return "ours-1.0-py3-none-any.whl"

    def content(self) -> bytes:
        raise AssertionError("only machines read it")

    def constraints(self) -> bytes:
        return b"pydantic==2.13.0\n"


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def test_submitted_work_rents_a_machine_and_runs(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    assert machine.offer.price_usd_hour == min(
        o.price_usd_hour for o in cluster.api.ctx.config.resource_pools[0].offers
    )
    agent = cluster.boot(machine)
    cluster.settle()
    agent.work()
    assert len(agent.running) == 1
    (instance,) = cluster.instances()
    assert (instance["state"], instance["agentId"]) == ("REGISTERED", machine.cloud_id)


def test_machines_install_the_agent_from_their_cluster(
    cluster: RentedCluster, user: Caller
) -> None:
    cluster.api.ctx.host.public_url, cluster.api.ctx.wheel = "https://cluster.example", Wheel()
    create(user, activate=True)
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    wheels = "https://cluster.example/agents/v1/wheel"
    assert f"pip install -q -c {wheels}/constraints.txt pyyaml " in machine.request.user_data
    own = f"pip install -q --no-deps {wheels}/ours-1.0-py3-none-any.whl\n"
    assert own in machine.request.user_data, "not the libraries of the control plane"
    response = cluster.api.anonymous().ask("GET", "/agents/v1/wheel/constraints.txt")
    assert response.body == b"pydantic==2.13.0\n"


def test_machines_pull_the_images_of_their_section(cluster: RentedCluster, user: Caller) -> None:
    ctx = cluster.api.ctx
    (pool,) = ctx.config.resource_pools
    section = replace(pool.sections[0], settings={"pull_images": ["team/a:1", "team/b"]})
    ctx.config = replace(ctx.config, resource_pools=(replace(pool, sections=(section,)),))
    create(user, activate=True)
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    assert "images team/a:1 team/b < /dev/null" in machine.request.user_data


def test_idle_machine_is_terminated_after_some_minutes(
    cluster: RentedCluster, user: Caller
) -> None:
    create(user, activate=True)
    _, agent = cluster.employ()
    agent.finish()
    cluster.settle()
    assert cluster.cloud.alive(), "a machine that was just used is kept for the next work"
    for _ in range(10):
        cluster.pass_time(minutes=1)
        agent.poll()
        cluster.settle(1)
    cluster.pass_time(minutes=2)
    cluster.settle()
    cluster.pass_time(minutes=2)
    cluster.settle()
    assert not cluster.cloud.alive()
    assert cluster.instances() == []
    (instance,) = cluster.instances(all="true")
    assert (instance["state"], instance["costUsd"] > 0) == ("GONE", True)


def test_machine_with_unsent_log_lines_stays_for_a_limited_time(
    cluster: RentedCluster, user: Caller
) -> None:
    create(user, activate=True)
    _, agent = cluster.employ()
    agent.finish()
    for _ in range(20):
        cluster.pass_time(minutes=1)
        agent.poll(unsent=True)
        cluster.settle(1)
    assert [i["state"] for i in cluster.instances()] == ["REGISTERED"]
    for _ in range(15):
        cluster.pass_time(minutes=1)
        if [i["state"] for i in cluster.instances()] == ["REGISTERED"]:
            agent.poll(unsent=True)
        cluster.settle(1)
    assert not cluster.cloud.alive()


def test_list_omits_machines_that_ended_before_a_time(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    cluster.settle()
    cluster.cloud.reclaim(cluster.cloud.alive()[0].cloud_id)
    cluster.pass_time(minutes=1)
    cluster.settle()
    (live,) = cluster.instances()
    (instance,) = (i for i in cluster.instances(all="true") if i["endedAt"])
    since = cluster.instances(endedAfter=instance["endedAt"])
    assert {i["id"] for i in since} == {live["id"], instance["id"]}
    (later,) = cluster.instances(endedAfter="2026-02-01T00:00:00Z")
    assert later["id"] == live["id"]
    response = user.ask("GET", "/api/v1/instances", query={"endedAfter": "yesterday"})
    assert response.status == 400


def test_row_exists_before_the_cloud_is_called(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    cluster.decide()
    assert not cluster.cloud.rented
    (instance,) = cluster.instances()
    assert instance["state"] == "REQUESTED"


def test_lost_response_rents_no_second_machine(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    cluster.cloud.lose_next_answer()
    cluster.settle()
    cluster.pass_time(minutes=3)
    cluster.settle()
    assert len(cluster.cloud.rented) == 1
    (instance,) = cluster.instances()
    assert (instance["state"], instance["cloudId"]) == (
        "LAUNCHED",
        cluster.cloud.rented[0].cloud_id,
    )


def test_machine_of_a_lost_response_has_the_price_of_its_zone(
    cluster: RentedCluster, user: Caller
) -> None:
    cluster.cloud.refuse(Scope("aws", zone="us-east-1a"), RefusalKind.NO_CAPACITY, "no g5 in 1a")
    create(user, activate=True)
    cluster.cloud.lose_next_answer()
    cluster.settle()
    (instance,) = cluster.instances()
    assert (instance["state"], instance["zone"], instance["priceUsdHour"]) == (
        "LAUNCHED",
        "us-east-1b",
        0.5,
    )


def test_machine_listed_late_is_not_declared_gone(cluster: RentedCluster, user: Caller) -> None:
    cluster.cloud.faults = CloudFaults(listed_late=1.0)
    create(user, activate=True)
    cluster.settle(6)
    (instance,) = cluster.instances()
    assert instance["state"] == "LAUNCHED"


def test_machines_receive_their_identity_in_the_other_cloud(
    cluster: RentedCluster, user: Caller
) -> None:
    (pool,) = cluster.api.ctx.config.resource_pools
    role = "arn:aws:iam::123456789012:role/machine"
    section = replace(pool.sections[0], settings={"aws_role_arn": role})
    pools = (replace(pool, sections=(section,)),)
    cluster.api.ctx.config = replace(cluster.api.ctx.config, resource_pools=pools)
    create(user, activate=True)
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    assert f'"aws_role_arn": "{role}"' in machine.request.user_data


def test_zone_without_capacity_is_replaced_by_another(cluster: RentedCluster, user: Caller) -> None:
    cluster.cloud.refuse(Scope("aws", zone="us-east-1a"), RefusalKind.NO_CAPACITY, "no g5 in 1a")
    create(user, activate=True)
    cluster.settle(6)
    (machine,) = cluster.cloud.alive()
    assert machine.zone == "us-east-1b"


def test_wait_reason_has_the_refusal_and_the_next_try(
    cluster: RentedCluster, user: Caller, admin: Caller
) -> None:
    cluster.cloud.refuse(Scope("aws"), RefusalKind.QUOTA, "quota L-DB2E81BA of G instances is 0")
    experiment_id = create(user, activate=True)
    cluster.settle(6)
    assert not cluster.cloud.alive()
    assert "L-DB2E81BA" in reason(user, experiment_id)
    pool = admin.get("/api/v1/rented-pools/default")["pool"]
    assert pool["cooldowns"]
    cluster.cloud.allow()
    admin.post("/api/v1/rented-pools/default/resume", {})
    cluster.settle(6)
    assert len(cluster.cloud.alive()) == 1


def test_refused_launch_is_not_retried_in_a_loop(cluster: RentedCluster, user: Caller) -> None:
    cluster.cloud.refuse(Scope("aws"), RefusalKind.NO_CAPACITY)
    create(user, activate=True)
    cluster.settle(10)
    instance = len(cluster.instances(all="true"))
    cluster.settle(10)
    assert len(cluster.instances(all="true")) == instance


def test_announced_reclaim_launches_a_replacement_immediately(
    cluster: RentedCluster, user: Caller
) -> None:
    create(user, activate=True)
    first, agent = cluster.employ()
    cluster.cloud.reclaim(first.cloud_id, notice_s=120)
    agent.poll(leaving=True)
    cluster.settle()
    assert len(cluster.cloud.alive()) == 2, "the replacement is launched when the notice arrives"
    assert {i["state"] for i in cluster.instances()} == {"DRAINING", "LAUNCHED"}


@pytest.mark.parametrize(
    ("notice", "ordered", "remembered"),
    [
        ("spot_interruption", False, 1),
        ("shutdown", False, 0),
        ("maintenance", False, 0),
        ("rebalance", False, 1),
        ("spot_interruption", True, 0),
    ],
)
def test_only_reclaimed_machines_count_against_their_offer(
    cluster: RentedCluster, user: Caller, admin: Caller, notice: str, ordered: bool, remembered: int
) -> None:
    """A released machine shuts down as well."""
    create(user, activate=True)
    _, agent = cluster.employ()
    if ordered:
        (instance,) = cluster.instances()
        admin.post(f"/api/v1/instances/{instance['id']}/terminate")
    agent.poll(leaving=True, notice="maintenance")
    agent.poll(leaving=True, notice=notice)
    with cluster.api.ctx.db.begin() as tx:
        assert len(failed_offers.reclaimed_since(tx, START - timedelta(days=1))) == remembered


def test_restarted_agent_on_a_draining_machine_continues_its_work(
    cluster: RentedCluster, user: Caller
) -> None:
    create(user, activate=True)
    first, agent = cluster.employ()
    cluster.cloud.reclaim(first.cloud_id, notice_s=120)
    agent.poll(leaving=True)
    cluster.settle()
    machine = cluster.boot(first)
    machine.running, machine.seq = agent.running, agent.seq
    machine.poll(leaving=True)
    assert "DRAINING" in {i["state"] for i in cluster.instances()}
    assert machine.running, "its container stores a checkpoint"


def test_work_of_a_vanished_machine_restarts_elsewhere(
    cluster: RentedCluster, user: Caller
) -> None:
    experiment_id = create(user, activate=True)
    first, _ = cluster.employ()
    cluster.cloud.reclaim(first.cloud_id)
    for _ in range(4):
        cluster.pass_time(minutes=1)
        cluster.settle()
    (second,) = cluster.cloud.alive()
    other = cluster.boot(second)
    for _ in range(6):
        cluster.pass_time(seconds=10)
        cluster.settle(1)
        other.work()
    assert len(other.running) == 1
    trial = user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"][0]
    assert trial["restarts"] == 0, "infrastructure never spends the user's retries"


def test_orphaned_machine_is_terminated(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    cluster.cloud.launch(replace(machine.request, machine_id=uuid.uuid4()))
    cluster.settle()
    cluster.pass_time(minutes=1)
    assert [m.cloud_id for m in cluster.cloud.alive()] == [machine.cloud_id]


def test_rejects_proof_of_another_or_unknown_machine(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    body = cluster.joining("thief", str(uuid.uuid4()), machine)
    foreign = {**body, "proof": {**body["proof"], "nonce": "made for somebody else"}}
    response = cluster.api.anonymous().ask("POST", "/agents/v1/join", foreign)
    assert (response.status, "made for another agent" in response.error) == (401, True)
    verifier = cluster.api.ctx.verifiers.machines["fake_cloud"]
    assert isinstance(verifier, BelievingVerifier)
    asked = verifier.asked
    stranger = {**body, "proof": {**body["proof"], "cloud_id": "i-stranger"}}
    response = cluster.api.anonymous().ask("POST", "/agents/v1/join", stranger)
    assert (response.status, "is not one that this cluster launched" in response.error) == (
        401,
        True,
    )
    assert verifier.asked == asked, (
        "strangers would have the cluster ask its cloud as often as they like"
    )


def test_rejects_malformed_proof(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    cluster.settle()
    verifier = AwsIdentityVerifier(Trusted(list, []))
    cluster.api.ctx.verifiers.machines = {verifier.kind: verifier}
    (machine,) = cluster.cloud.alive()
    body = cluster.joining("agent", str(uuid.uuid4()), machine)
    for document in ("{}", "[" * 10_000):
        proof = {"kind": verifier.kind, "document": document}
        response = cluster.api.anonymous().ask("POST", "/agents/v1/join", {**body, "proof": proof})
        assert (response.status, "the proof lacks" in response.error) == (401, True)


def test_proof_is_accepted_once_and_for_one_agent(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    body = cluster.joining(machine.cloud_id, str(uuid.uuid4()), machine)
    anonymous = cluster.api.anonymous()
    assert anonymous.ask("POST", "/agents/v1/join", body).status == 200
    response = anonymous.ask("POST", "/agents/v1/join", body)
    assert (response.status, "used before" in response.error) == (401, True)
    dressed_up = {**body, "proof": {**body["proof"], "note": "not signed, so anybody may add it"}}
    response = anonymous.ask("POST", "/agents/v1/join", dressed_up)
    assert (response.status, "used before" in response.error) == (401, True)
    other = cluster.joining("second", str(uuid.uuid4()), machine)
    assert anonymous.ask("POST", "/agents/v1/join", other).status == 401


def test_operators_can_hold_pools_and_terminate_machines(
    cluster: RentedCluster, user: Caller, admin: Caller
) -> None:
    assert user.ask("POST", "/api/v1/rented-pools/default/hold", {}).status == 403
    admin.post("/api/v1/rented-pools/default/hold", {"reason": "the bill"})
    experiment_id = create(user, activate=True)
    cluster.settle()
    assert not cluster.cloud.rented
    assert "the bill" in reason(user, experiment_id)
    admin.post("/api/v1/rented-pools/default/resume", {})
    cluster.settle()
    (instance,) = cluster.instances()
    assert user.ask("POST", f"/api/v1/instances/{instance['id']}/terminate").status == 403
    admin.post(f"/api/v1/instances/{instance['id']}/terminate")
    cluster.settle()
    cluster.pass_time(minutes=1)
    cluster.settle()
    assert not [m for m in cluster.cloud.alive() if m.cloud_id == instance["cloudId"]]


def test_machines_never_exceed_the_maximum(database: Database, tmp_path: Path) -> None:
    with rented_cluster(database, tmp_path, limits=Limits(max_instances=2)) as cluster:
        user = cluster.api.signed_in("determined")
        for _ in range(5):
            create(user, activate=True)
        cluster.settle(6)
        assert len(cluster.cloud.rented) == 2


def test_unreachable_cloud_delays_launches_without_loss(
    cluster: RentedCluster, user: Caller
) -> None:
    cluster.cloud.connected = False
    create(user, activate=True)
    cluster.settle()
    cluster.cloud.connected = True
    cluster.pass_time(minutes=1)
    cluster.settle()
    assert len(cluster.cloud.alive()) == 1


def test_rejects_more_slots_than_the_pool_can_rent(database: Database, tmp_path: Path) -> None:
    limits = Limits(max_instances=2)
    with rented_cluster(database, tmp_path, (offer("1.00"),), limits) as cluster:
        user = cluster.api.signed_in("determined")

        def submit(**resources: object) -> ApiResponse:
            config = config_of(resources=resources)
            return user.ask("POST", "/api/v1/experiments", {"config": config, "activate": False})

        assert submit(slots_per_trial=2).status == 200
        response = submit(slots_per_trial=3)
        assert "can have 2 with 2 machines of its largest type" in response.error
        assert (
            "asks for 2 slots of one agent" in submit(slots_per_trial=2, is_single_node=True).error
        )


def test_running_machine_has_its_current_cost(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    cluster.settle()
    cluster.pass_time(minutes=15)
    (instance,) = cluster.instances()
    assert instance["costUsd"] == 0.10
    described = user.get(f"/api/v1/instances/{instance['id']}")["instance"]
    assert described["costUsd"] == 0.10


def test_pool_shows_only_refusals_of_its_own_offers(cluster: RentedCluster, user: Caller) -> None:
    zones = {"us-east-1a": RefusalKind.INVALID, "eu-west-1a": RefusalKind.NO_CAPACITY}
    with cluster.api.ctx.db.begin() as tx:
        for zone, kind in zones.items():
            cooldown = after_refusal(
                None, kind, Scope("aws", zone=zone), f"no {zone}", cluster.time.timestamp()
            )
            failed_offers.store_cooldowns(tx, [cooldown], cluster.time)
    (reported_cooldown,) = user.get("/api/v1/rented-pools/default")["pool"]["cooldowns"]
    assert (reported_cooldown["zone"], reported_cooldown["until"]) == ("us-east-1a", None), (
        "invalid offers have no next try"
    )


def test_pool_groups_allocations_by_wait_reason(cluster: RentedCluster, user: Caller) -> None:
    cluster.cloud.refuse(Scope("aws"), RefusalKind.NO_CAPACITY, "no g5 anywhere")
    assert user.get("/api/v1/rented-pools/default")["pool"]["waiting"] == []
    for _ in range(3):
        create(user, activate=True)
    cluster.settle(6)
    (reason,) = user.get("/api/v1/rented-pools/default")["pool"]["waiting"]
    assert (reason["allocations"], reason["slots"], reason["code"]) == (3, 3, "COOLING_DOWN")
    assert "no g5 anywhere" in reason["sentence"]
    assert reason["nextTry"] > "2026-01-01"
