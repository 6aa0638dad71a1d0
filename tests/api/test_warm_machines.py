"""Pools that choose how many idle machines they keep, from their own starts."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from det_controlplane.core.provision.model import Limits
from det_controlplane.core.provision.offers import Capacity
from det_controlplane.core.provision.warm import WarmPolicy
from det_controlplane.db.engine.database import Database
from det_controlplane.db.machines import warm_pools
from det_controlplane.services.maintenance import tick

from tests.support.api import Caller, create
from tests.support.rented import RentedCluster, offer, reason, rented_cluster

LIMITS = Limits(
    max_idle_s=600, max_instances=2, warm_policy=WarmPolicy(5.0, waiting_usd_hour=100.0)
)


@pytest.fixture
def cluster(database: Database, tmp_path: Path) -> Iterator[RentedCluster]:
    offers = (offer("0.40", Capacity.ON_DEMAND),)
    with rented_cluster(database, tmp_path, offers, LIMITS) as rented_machines:
        # A Monday, ten minutes past nine.
        rented_machines.time = datetime(2026, 1, 5, 9, 10, tzinfo=timezone.utc)
        yield rented_machines


@pytest.fixture
def user(cluster: RentedCluster) -> Caller:
    return cluster.api.signed_in("determined")


def run_and_kill(cluster: RentedCluster, user: Caller) -> None:
    """Run an experiment to its end, and let its machine end."""
    id = create(user, activate=True)
    _, agent = cluster.employ()
    user.post(f"/api/v1/experiments/{id}/kill")
    agent.finish()
    for _ in range(4):
        cluster.pass_time(minutes=11)
        cluster.settle()


def test_starts_of_the_last_weeks_are_counted_by_hour(cluster: RentedCluster, user: Caller) -> None:
    run_and_kill(cluster, user)
    with cluster.api.ctx.db.begin() as tx:
        (rate,) = warm_pools.starts(tx, "default", cluster.time)
        assert rate == (False, 9, 1, 1 / 5)
        assert warm_pools.starts(tx, "default", cluster.time + timedelta(days=29)) == ()


def test_pool_keeps_a_machine_warm_in_the_hour_of_its_starts(
    cluster: RentedCluster, user: Caller
) -> None:
    run_and_kill(cluster, user)
    assert cluster.cloud.alive() == [], "the hour ended"
    cluster.time += timedelta(days=1) - timedelta(minutes=44)
    blocked = create(user, activate=True, resources={"slots_per_trial": 1})
    cluster.settle()
    assert len(cluster.cloud.alive()) == 2, "one for the work, and a warm one"
    sentence = "1 machine is kept warm: 9–10 o'clock UTC has 0.2 starts/hour; costs $0.40/day of at most $5"
    assert sentence in reason(user, blocked)
    cluster.pass_time(minutes=6)
    admin = cluster.api.signed_in("admin")
    pool = admin.get("/api/v1/rented-pools/default")["pool"]
    assert pool["warmInstances"] == 1
    assert pool["warm"] == {
        "reason": sentence, "spentTodayUsd": 0.04, "maxCostPerDay": 5.0, "waitingCostPerHour": 100.0,
    }  # fmt: skip


def test_idle_cluster_sleeps_until_its_first_start(cluster: RentedCluster, user: Caller) -> None:
    run_and_kill(cluster, user)
    cluster.pass_time(hours=1)
    cluster.api.tick()
    assert tick.run(cluster.api.ctx) is None
