"""Drain a cluster as `det deploy … down` does before its machines end."""

from datetime import timedelta
from pathlib import Path

import pytest
from det_cli.deployment import running_cluster
from det_cli.errors import CommandError
from det_controlplane.db.machines import pool_holds

from tests.support.api import PASSWORD, create
from tests.support.rented import RentedCluster
from tests.support.served_api import served


@pytest.fixture(autouse=True)
def nobody_is_signed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DET_USER", "DET_PASS", "DET_USER_TOKEN", "DET_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_draining_pauses_work_and_rents_no_machines(
    cluster: RentedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = cluster.api.signed_in("determined")
    works = create(owner, activate=True, resources={"slots_per_trial": 1})
    _, agent = cluster.employ()
    (order,) = agent.poll()
    owner.post(f"/api/v1/allocations/{order['allocation_id']}/ready")
    messages: list[str] = []
    wishes: list[str] = []

    def meanwhile() -> None:
        """Let the trial save its checkpoint and exit, as its harness does when it is asked to leave."""
        wishes.extend(order["desired"] for order in agent.poll())
        owner.post(f"/api/v1/allocations/{order['allocation_id']}/signals/ack_preemption")
        agent.finish()
        create(owner, activate=True, resources={"slots_per_trial": 1})
        cluster.settle()

    monkeypatch.setattr(running_cluster, "_rest", meanwhile)
    with served(cluster.api) as url:
        running_cluster.drain(url, PASSWORD, 60, messages.append)
    assert messages == [
        "Draining: 1 experiments pause after saving a checkpoint",
        "Waiting for 1 containers to end, 60 s at most",
    ]
    experiment = owner.get(f"/api/v1/experiments/{works}")["experiment"]
    assert experiment["state"] == "STATE_PAUSED"
    assert len(cluster.cloud.alive()) == 1, "what came meanwhile rents no machine"
    assert wishes == ["running"], "it is asked for a checkpoint, and not killed"


def test_draining_replaces_a_temporary_hold_by_a_permanent_one(cluster: RentedCluster) -> None:
    with cluster.api.ctx.db.begin() as tx:
        soon = cluster.time + timedelta(minutes=15)
        pool_holds.hold(tx, "default", "the last 3 machines did not join", cluster.time, until=soon)
    with served(cluster.api) as url:
        running_cluster.drain(url, PASSWORD, 60, lambda _: None)
    cluster.pass_time(minutes=16)
    hold = cluster.api.signed_in("admin").get("/api/v1/rented-pools/default")["pool"]["hold"]
    assert hold["sentence"] == "held by admin: the cluster is being removed"


def test_error_names_work_that_still_runs_and_the_remedy(
    cluster: RentedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = cluster.api.signed_in("determined")
    create(owner, activate=True, resources={"slots_per_trial": 1})
    machine, _ = cluster.employ()
    monkeypatch.setattr(running_cluster, "_rest", lambda: None)
    with served(cluster.api) as url, pytest.raises(CommandError) as error:
        running_cluster.drain(url, PASSWORD, 0.05, lambda _: None)
    assert f"work still runs on {machine.cloud_id}" in error.value.cause
    assert "the cluster was not removed" in error.value.hint


def test_error_explains_how_to_sign_in_after_a_password_change(cluster: RentedCluster) -> None:
    with served(cluster.api) as url, pytest.raises(CommandError) as error:
        running_cluster.drain(url, "changed", 1, lambda _: None)
    assert "the cluster cannot be drained" in error.value.cause
    assert "det user login" in error.value.hint
    assert "--force" in error.value.hint


def test_rejects_user_without_the_right(
    cluster: RentedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_USER", "determined")
    monkeypatch.setenv("DET_PASS", PASSWORD)
    with served(cluster.api) as url, pytest.raises(CommandError) as error:
        running_cluster.drain(url, "changed", 1, lambda _: None)
    assert "only an administrator may" in error.value.cause
    assert "user login admin" in error.value.hint
