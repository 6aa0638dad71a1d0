"""Machines with agents that never join are terminated. After several in a row, their pool stops renting for a while."""

from dataclasses import replace
from typing import Any

import pytest
from det_controlplane.core.config.cluster import Authz
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.machines import pool_holds, provision
from det_controlplane.db.people import sessions
from det_controlplane.services.identity.authentication import token_hash
from det_controlplane.testing.fakecloud import RentedMachine

from tests.support.api import Api, Caller, create
from tests.support.house import House
from tests.support.rented import RentedCluster, reason


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def test_machine_that_never_joins_is_terminated(cluster: RentedCluster, user: Caller) -> None:
    experiment_id = create(user, activate=True)
    cluster.settle()
    (dead,) = cluster.cloud.alive()
    dead.console = (
        "determined-boot: installing docker\nE: no such package\n"
        "determined-boot: failed at line 12\0 with status 7"
    )
    cluster.pass_time(minutes=21)
    cluster.settle()
    cluster.pass_time(minutes=2)
    cluster.settle()
    assert dead not in cluster.cloud.alive()
    instance = next(i for i in cluster.instances(all="true") if i["cloudId"] == dead.cloud_id)
    assert "did not join" in instance["reason"]
    assert "console" not in instance
    described = cluster.api.signed_in("admin").get(f"/api/v1/instances/{instance['id']}")[
        "instance"
    ]
    assert described["console"].endswith("failed at line 12 with status 7")
    assert (
        "last startup step: installing docker; last output: E: no such package"
        f" (`det instance describe {instance['id']}`)"
    ) in reason(user, experiment_id)


def test_only_operators_read_the_console_of_a_machine(
    cluster: RentedCluster, user: Caller, admin: Caller
) -> None:
    """The console may contain secrets from a pool's start-up script, and has the agent's log."""
    create(user, activate=True)
    cluster.settle()
    (dead,) = cluster.cloud.alive()
    dead.console = "determined-boot: a word of the startup script"
    cluster.pass_time(minutes=21)
    cluster.settle()
    (machine,) = (i for i in cluster.instances(all="true") if i["cloudId"] == dead.cloud_id)
    with cluster.api.ctx.db.begin() as tx:
        hashed_token = token_hash("of a task of the administrator")
        sessions.create_for_task(tx, 1, "t.1", hashed_token, cluster.time, None, narrow=False)
    task = cluster.api.with_token("of a task of the administrator")

    def printed(caller: Caller) -> Any:
        return caller.get(f"/api/v1/instances/{machine['id']}")["instance"]["console"]

    assert [printed(caller) for caller in (user, task)] == [None, None]
    assert printed(admin) == dead.console
    house = House(cluster.api, admin)
    operator, editor = (house.person(role, role) for role in ("AgentOperator", "Editor"))
    cluster.api.ctx.config = replace(cluster.api.ctx.config, authz=Authz.RBAC)
    assert [printed(operator), printed(editor)] == [dead.console, None]


def test_pool_is_held_after_three_machines_that_never_join(
    cluster: RentedCluster, user: Caller
) -> None:
    id = create(user, activate=True)
    for _ in range(3):
        cluster.settle()
        cluster.pass_time(minutes=21)
    cluster.settle()
    assert len(cluster.cloud.rented) == 3
    assert "the last 3 machines did not join" in reason(user, id)
    cluster.pass_time(minutes=16)
    cluster.settle()
    assert len(cluster.cloud.rented) == 4


def test_pool_is_held_if_its_machines_shut_down_while_booting(
    cluster: RentedCluster, user: Caller
) -> None:
    id = create(user, activate=True)
    for _ in range(5):
        cluster.settle()
        for dead in cluster.cloud.alive():
            dead.console = "determined-boot: installing docker\nKernel panic - not syncing"
            cluster.cloud.reclaim(dead.cloud_id)
            dead.ended_because = "it switched itself off"
        cluster.pass_time(minutes=1)
        cluster.settle()
    assert len(cluster.cloud.rented) == 3, "no money is spent in a loop"
    message = reason(user, id)
    assert "the last 3 machines did not join" in message
    assert "last startup step: installing docker" in message
    first = cluster.instances(all="true")[0]
    assert first["reason"] == "it ended before its agent joined: it switched itself off"


def test_hold_during_a_decision_is_respected(
    cluster: RentedCluster, user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction records the end of a third failed machine and the hold of its pool."""
    create(user, activate=True)
    original = provision.machines_of

    def held_meanwhile(tx: Tx, pool: str) -> object:
        with cluster.api.ctx.db.begin() as other:
            pool_holds.hold(other, pool, "its machines do not join", cluster.api.ctx.now())
        return original(tx, pool)

    monkeypatch.setattr(provision, "machines_of", held_meanwhile)
    cluster.settle(1)
    assert cluster.cloud.rented == []


def test_machines_reclaimed_while_booting_do_not_hold_their_pool(
    cluster: RentedCluster, user: Caller
) -> None:
    """It is the cloud's want of room: another offer is tried, and the image is not suspected."""
    id = create(user, activate=True)
    for _ in range(4):
        cluster.settle()
        cluster.cloud.reclaim(cluster.cloud.alive()[-1].cloud_id)
        cluster.pass_time(minutes=1)
        cluster.settle()
    assert len(cluster.cloud.rented) == 5
    assert "did not join" not in reason(user, id)
    instance = [i["reason"] for i in cluster.instances(all="true") if i["state"] == "GONE"]
    assert set(instance) == {
        "its cloud took it back before its agent joined: spot capacity was taken back"
    }
    offers = [m.offer for m in cluster.cloud.rented]
    assert offers[0] != offers[1], "what was taken back a moment ago is not asked for again"


def fail_to_boot(cluster: RentedCluster, count: int = 1) -> None:
    """Let machines end while they boot, one after the other."""
    for _ in range(count):
        cluster.settle()
        (dead,) = cluster.cloud.alive()
        cluster.cloud.reclaim(dead.cloud_id)
        dead.ended_because = "it switched itself off"
        cluster.pass_time(minutes=1)
        cluster.settle()


def expect_held(cluster: RentedCluster, minutes: int) -> None:
    """Let the time of a hold pass: shortly before its end no machine is rented, and afterwards one is."""
    cluster.settle(1)
    machine_count = len(cluster.cloud.rented)
    cluster.pass_time(minutes=minutes - 2)
    cluster.settle(2)
    assert len(cluster.cloud.rented) == machine_count, f"held for less than {minutes} minutes"
    cluster.pass_time(minutes=3)
    cluster.settle(2)
    assert len(cluster.cloud.rented) > machine_count, f"held for more than {minutes} minutes"


def test_each_failed_attempt_doubles_the_hold(cluster: RentedCluster, user: Caller) -> None:
    """A cluster without supervision for a weekend must not pay for one failed machine after another."""
    create(user, activate=True)
    fail_to_boot(cluster, 3)
    expect_held(cluster, 15)
    for minutes in (30, 60, 120, 240, 240):
        fail_to_boot(cluster)
        expect_held(cluster, minutes)


def test_joined_machine_resets_the_length_of_holds(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    fail_to_boot(cluster, 3)
    expect_held(cluster, 15)
    fail_to_boot(cluster)
    expect_held(cluster, 30)
    machine, _ = cluster.employ()
    cluster.cloud.reclaim(machine.cloud_id)
    for _ in range(4):
        cluster.pass_time(minutes=1)
        cluster.settle()
    fail_to_boot(cluster, 3)
    expect_held(cluster, 15)


def test_resuming_a_pool_resets_its_failure_count(
    cluster: RentedCluster, user: Caller, admin: Caller
) -> None:
    """The image was fixed, so failures of the old one do not count for the new one."""
    id = create(user, activate=True)
    fail_to_boot(cluster, 3)
    assert "the last 3 machines did not join" in reason(user, id)
    admin.post("/api/v1/rented-pools/default/resume", {})
    fail_to_boot(cluster, 2)
    assert len(cluster.cloud.rented) == 6, "two failures hold no pool"
    fail_to_boot(cluster)
    assert "the last 3 machines did not join" in reason(user, id)
    expect_held(cluster, 15)


def test_machines_booting_at_the_resume_do_not_count(
    cluster: RentedCluster, user: Caller, admin: Caller
) -> None:
    for _ in range(4):
        create(user, activate=True)
    cluster.settle()
    first, second, third, fourth = cluster.cloud.alive()

    def end(*dead: RentedMachine) -> None:
        for machine in dead:
            cluster.cloud.reclaim(machine.cloud_id)
            machine.ended_because = "it switched itself off"
        cluster.pass_time(minutes=1)
        cluster.settle()

    end(first, second, third)
    assert admin.get("/api/v1/rented-pools/default")["pool"]["hold"] is not None
    admin.post("/api/v1/rented-pools/default/resume", {})
    end(fourth)
    assert admin.get("/api/v1/rented-pools/default")["pool"]["hold"] is None
