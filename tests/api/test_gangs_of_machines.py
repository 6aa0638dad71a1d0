"""A trial over several rented machines, where machines of two regions are free."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from det_controlplane.core.config.providers import Section
from det_controlplane.core.provision.offers import Capacity, Offer
from det_controlplane.db.engine.database import Database

from tests.support.api import Api, Caller, create
from tests.support.rented import MachineAgent, RentedCluster, offer, rented_cluster

EAST = offer("2.00", Capacity.ON_DEMAND, slots=4, zone="us-east-1a")
WEST = offer("2.50", Capacity.ON_DEMAND, slots=4, region="us-west-2", zone="us-west-2a")


@pytest.fixture
def cluster(database: Database, tmp_path: Path) -> Iterator[RentedCluster]:
    with rented_cluster(database, tmp_path, offers=(EAST, WEST)) as rented_machines:
        yield rented_machines


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def rent_only(cluster: RentedCluster, *offers: Offer) -> None:
    config = cluster.api.ctx.config
    sections = (Section("aws", {}, ("us-east-1", "us-west-2")),)
    pool = replace(config.resource_pools[0], offers=offers, sections=sections)
    cluster.api.ctx.config = replace(config, resource_pools=(pool,))


def freed(cluster: RentedCluster, user: Caller, zone_offer: Offer) -> MachineAgent:
    """Return the idle agent of a machine in a region."""
    rent_only(cluster, zone_offer)
    id = create(user, activate=True, resources={"slots_per_trial": 4})
    machine, agent = cluster.employ()
    assert machine.offer == zone_offer
    user.post(f"/api/v1/experiments/{id}/kill")
    agent.finish()
    agent.poll()
    return agent


def test_gang_starts_in_the_region_where_it_is_completed(
    cluster: RentedCluster, user: Caller
) -> None:
    east = freed(cluster, user, EAST)
    rent_only(cluster, WEST)
    id = create(user, activate=True, resources={"slots_per_trial": 4})
    cluster.settle(1)
    east.work()  # it takes the work, so that the next machine is another one
    west = freed(cluster, user, WEST)
    user.post(f"/api/v1/experiments/{id}/kill")
    east.finish()
    east.poll()
    rent_only(cluster, EAST, WEST)
    create(user, activate=True, resources={"slots_per_trial": 8})
    cluster.settle()
    assert [m.offer for m in cluster.cloud.alive()] == [EAST, WEST, EAST]
    assert not east.poll()
    assert not west.poll()
    third = cluster.boot(cluster.cloud.alive()[-1])
    cluster.settle()
    assert [len(agent.poll()) for agent in (east, west, third)] == [1, 0, 1]
