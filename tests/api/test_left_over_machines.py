"""Pools that are removed from the configuration leave no machines that cost money."""

from dataclasses import replace
from typing import Any

import pytest
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.config.pools import Pool
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Scope
from det_controlplane.entry.clouds import clouds_of
from det_controlplane.services.machines.places import providers_left
from det_controlplane.services.maintenance import tick
from det_controlplane.testing.fakecloud import FakeCloud

from tests.support.api import Api, Caller, create
from tests.support.rented import RentedCluster, offer


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def configure(cluster: RentedCluster, *pools: Pool) -> None:
    """Start the cluster again with other pools."""
    cluster.api.ctx.config = replace(cluster.api.ctx.config, resource_pools=pools)


def kept(cluster: RentedCluster, **changes: Any) -> Pool:
    (pool,) = cluster.api.ctx.config.resource_pools
    return replace(pool, **changes)


def let_end(cluster: RentedCluster) -> None:
    """Wait until the cloud has terminated the ordered machines."""
    for _ in range(3):
        cluster.settle()
        cluster.pass_time(minutes=1)
    cluster.settle()


@pytest.mark.parametrize("then", ["another", "no longer rented"])
def test_machines_of_a_removed_pool_end_with_their_work(
    cluster: RentedCluster, user: Caller, then: str
) -> None:
    create(user, activate=True)
    _, agent = cluster.employ()
    static = kept(cluster, offers=(), sections=())
    other = kept(cluster, pool_name="another")
    configure(cluster, other if then == "another" else static)
    for _ in range(3):
        cluster.pass_time(seconds=20)
        agent.poll()
        cluster.settle(1)
    (instance,) = cluster.instances()
    assert (instance["state"], instance["reason"]) == (
        "DRAINING",
        "its pool rents no machines any more",
    )
    (order,) = agent.poll()
    assert order["desired"] == "running", "what runs comes to its end"
    agent.finish()
    let_end(cluster)
    assert not cluster.cloud.alive()
    (ended_machine,) = cluster.instances(all="true")
    assert ended_machine["reason"] == "it is drained: its pool rents no machines any more"


def test_booting_machines_of_a_removed_pool_end_immediately(
    cluster: RentedCluster, user: Caller
) -> None:
    create(user, activate=True)
    cluster.settle()
    assert cluster.cloud.alive()
    configure(cluster, kept(cluster, pool_name="another"))
    cluster.api.ctx.waker.wake("schedule")
    let_end(cluster)
    assert not cluster.cloud.alive()


def test_requests_of_a_removed_section_are_canceled(cluster: RentedCluster, user: Caller) -> None:
    """Its image, network and identity came from the removed section. Under other settings it would only cost money."""
    create(user, activate=True)
    cluster.decide()
    (section,) = kept(cluster).sections
    google = replace(section, provider="gcp")
    configure(cluster, kept(cluster, sections=(google, section)))
    cluster.settle(1)
    assert cluster.cloud.rented == []
    (row,) = cluster.instances(all="true")
    assert (row["state"], "not configured any more" in row["reason"]) == ("TERMINATING", True)


def test_machine_of_an_unanswered_launch_ends_with_its_section(
    cluster: RentedCluster, user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pool rents in its region any more: no list would be read there, and it would cost money for ever."""
    create(user, activate=True)
    cluster.decide()
    cluster.cloud.lose_next_answer()
    with monkeypatch.context() as early:  # it is in no list yet
        early.setattr(FakeCloud, "owned", lambda *_: [])
        cluster.settle(1)
    assert cluster.cloud.alive()
    (section,) = kept(cluster).sections
    google = replace(section, provider="gcp")
    offers = (offer("0.40", provider="gcp", region="us-central1", zone="us-central1-a"),)
    configure(cluster, kept(cluster, sections=(google,), offers=offers))
    cluster.pass_time(seconds=30)
    let_end(cluster)
    assert not cluster.cloud.alive()


def test_cloud_of_remaining_machines_is_still_reached(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    cluster.settle()
    config = load_cluster({})
    assert clouds_of(config) == {}
    assert providers_left(cluster.api.ctx) == {"aws"}
    assert clouds_of(config, providers_left(cluster.api.ctx)).keys() == {"aws"}
    assert clouds_of(config, {"nowhere"}) == {}, "and one that cannot be is told in the log"


def test_removed_pool_causes_no_endless_decisions(cluster: RentedCluster, user: Caller) -> None:
    """Its next look was due and would stay due, so each pass would be due at once."""
    create(user, activate=True)
    cluster.cloud.refuse(Scope("aws"), RefusalKind.NO_CAPACITY)
    cluster.settle()
    cluster.pass_time(minutes=10)
    configure(cluster, kept(cluster, pool_name="another"))
    cluster.settle()
    assert tick.run(cluster.api.ctx) != 0.0


def test_machine_with_a_polling_agent_is_not_declared_gone(
    cluster: RentedCluster, user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials of another account list no machines. A machine that counts as gone would cost money forever."""
    create(user, activate=True)
    _, agent = cluster.employ()
    monkeypatch.setattr(FakeCloud, "owned", lambda *_: [])
    for _ in range(12):
        cluster.pass_time(seconds=20)
        agent.poll()
        cluster.settle(1)
    (instance,) = cluster.instances()
    assert (instance["state"], len(agent.running)) == ("REGISTERED", 1)
    for _ in range(8):
        cluster.pass_time(seconds=20)
        cluster.settle(1)
    assert "GONE" in [row["state"] for row in cluster.instances(all="true")]
