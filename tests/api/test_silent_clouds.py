"""A cloud does not answer for minutes: work is placed elsewhere, and machines that it may have launched are
terminated.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from det_controlplane.core.config.providers import Section
from det_controlplane.db.engine.database import Database
from det_controlplane.ports.compute import LaunchOutcome, LaunchRequest
from det_controlplane.services.machines import calling
from det_controlplane.testing.fakecloud import FakeCloud

from tests.support.api import Api, Caller, create
from tests.support.rented import RentedCluster, offer, rented_cluster

ELSEWHERE = replace(
    offer("2.00"), provider="gcp", region="us-central1", zone="us-central1-a", section=1
)


@pytest.fixture
def cluster(database: Database, tmp_path: Path) -> Iterator[RentedCluster]:
    with rented_cluster(database, tmp_path, offers=(offer("1.00"), ELSEWHERE)) as rented_machines:
        (pool,) = rented_machines.api.ctx.config.resource_pools
        sections = (*pool.sections, Section("gcp", {}, ("us-central1",)))
        pool = replace(pool, sections=sections)
        rented_machines.api.ctx.config = replace(
            rented_machines.api.ctx.config, resource_pools=(pool,)
        )
        yield rented_machines


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


@pytest.fixture
def other(cluster: RentedCluster) -> FakeCloud:
    return FakeCloud("gcp", now=cluster.cloud.now)


class FallsSilent:
    """A cloud that launches a machine and then stops answering."""

    provider = "aws"

    def __init__(self, cloud: FakeCloud) -> None:
        self._cloud = cloud
        self.terminate, self.owned, self.console = cloud.terminate, cloud.owned, cloud.console
        self.delete_groups = cloud.delete_groups

    def launch(self, request: LaunchRequest) -> LaunchOutcome:
        self._cloud.launch(request)
        self._cloud.connected = False
        return self._cloud.launch(request)


def wait(cluster: RentedCluster, other: FakeCloud, minutes: int) -> None:
    for _ in range(minutes * 3):
        cluster.api.tick()
        calling.run(cluster.api.ctx, {"aws": cluster.cloud, "gcp": other})
        cluster.pass_time(seconds=20)


def test_unresponsive_cloud_is_replaced_by_another_after_minutes(
    cluster: RentedCluster, other: FakeCloud, user: Caller
) -> None:
    cluster.cloud.connected = False
    create(user, activate=True)
    wait(cluster, other, minutes=4)
    assert not other.alive(), "a call is repeated for some minutes"
    wait(cluster, other, minutes=2)
    assert len(other.alive()) == 1
    (pool,) = user.get("/api/v1/rented-pools")["pools"]
    assert "aws in us-east-1 has not answered for 5 minutes" in str(pool["cooldowns"])


def test_machine_of_an_unanswered_launch_ends_when_its_cloud_responds(
    cluster: RentedCluster, other: FakeCloud, user: Caller
) -> None:
    create(user, activate=True)
    cluster.api.tick()
    calling.run(cluster.api.ctx, {"aws": FallsSilent(cluster.cloud), "gcp": other})
    wait(cluster, other, minutes=6)
    assert (len(cluster.cloud.alive()), len(other.alive())) == (1, 1)
    cluster.cloud.connected = True
    wait(cluster, other, minutes=3)
    assert (len(cluster.cloud.alive()), len(other.alive())) == (0, 1)


def test_launch_is_repeated_if_the_pool_has_no_other_cloud(
    cluster: RentedCluster, other: FakeCloud, user: Caller
) -> None:
    (pool,) = cluster.api.ctx.config.resource_pools
    alone = replace(pool, offers=pool.offers[:1])
    cluster.api.ctx.config = replace(cluster.api.ctx.config, resource_pools=(alone,))
    cluster.cloud.connected = False
    create(user, activate=True)
    wait(cluster, other, minutes=10)
    cluster.cloud.connected = True
    wait(cluster, other, minutes=1)
    assert len(cluster.cloud.alive()) == 1
    assert [i["state"] for i in cluster.instances(all="true")] == ["LAUNCHED"]
