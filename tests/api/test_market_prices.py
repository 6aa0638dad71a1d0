"""Prices that clouds report rank offers, affect caps, and show their source."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.provision.offers import Scope
from det_controlplane.db.engine.database import Database
from det_controlplane.services.machines import prices

from tests.support.api import Api, Caller, create
from tests.support.rented import RentedCluster, offer, rented_cluster

IN_A = offer("0.40")
IN_B = offer("0.50", zone="us-east-1b")
A, B = Scope.of(IN_A), Scope.of(IN_B)


@pytest.fixture
def cluster(database: Database, tmp_path: Path) -> Iterator[RentedCluster]:
    with rented_cluster(database, tmp_path, offers=(IN_A, IN_B)) as rented_machines:
        yield rented_machines


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def shown(user: Caller) -> dict[str, Any]:
    pool: dict[str, Any] = user.get("/api/v1/rented-pools/default")["pool"]
    return pool


def test_rents_in_the_currently_cheapest_zone(cluster: RentedCluster, user: Caller) -> None:
    cluster.market.prices = {A: Decimal("0.70"), B: Decimal("0.30")}
    cluster.settle(1)
    create(user, activate=True)
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    assert machine.zone == "us-east-1b"
    (instance,) = cluster.instances()
    assert instance["priceUsdHour"] == 0.3


def test_prices_are_requested_at_most_every_half_hour(cluster: RentedCluster, user: Caller) -> None:
    cluster.settle(5)
    assert cluster.market.asked == 1
    cluster.pass_time(minutes=29)
    cluster.settle()
    assert cluster.market.asked == 1
    cluster.pass_time(minutes=2)
    cluster.settle()
    assert cluster.market.asked == 2


def test_pool_shows_source_and_time_of_each_price(cluster: RentedCluster, user: Caller) -> None:
    cluster.market.prices = {A: Decimal("0.37")}
    cluster.settle(1)
    first, second = shown(user)["offers"]
    assert (first["priceUsdHour"], first["priceFrom"]) == (0.37, "cloud")
    assert first["priceReadAt"] == cluster.time.isoformat()
    assert (second["priceFrom"], second["priceReadAt"]) == ("list", None)


def test_pool_shows_hardware_of_catalog_types(cluster: RentedCluster, user: Caller) -> None:
    types = {"instance_types": ["g5.12xlarge", "g99.huge"], "instance_slots": 4}
    provider = {"type": "aws", "region": "us-east-1", **types}
    pools = load_cluster({"resource_pools": [{"pool_name": "default", "provider": provider}]})
    cluster.api.ctx.config = replace(cluster.api.ctx.config, resource_pools=pools.resource_pools)
    keys = ("gpu", "gpuMemoryGib", "vcpus", "memoryGib")
    hardware = [tuple(offer[key] for key in keys) for offer in shown(user)["offers"]]
    assert hardware == [("NVIDIA A10G", 24, 48, 192), (None, None, None, None)]


def test_failed_price_request_is_retried_and_shown(cluster: RentedCluster, user: Caller) -> None:
    cluster.market.connected = False
    cluster.settle()
    (problem,) = shown(user)["priceProblems"]
    assert (problem["region"], "no permission" in problem["problem"]) == ("us-east-1", True)
    cluster.market.connected = True
    cluster.market.prices = {A: Decimal("0.37")}
    cluster.pass_time(minutes=11)
    cluster.settle(1)
    assert shown(user)["priceProblems"] == []
    assert shown(user)["offers"][0]["priceUsdHour"] == 0.37


def test_work_starts_when_the_price_falls_below_its_cap(
    cluster: RentedCluster, user: Caller
) -> None:
    cap = Decimal("0.45")
    capped = replace(
        cluster.api.ctx.config.resource_pools[0], offers=(replace(IN_A, max_price_usd_hour=cap),)
    )
    cluster.api.ctx.config = replace(cluster.api.ctx.config, resource_pools=(capped,))
    cluster.market.prices = {A: Decimal("0.70")}
    cluster.settle(1)
    id = create(user, activate=True)
    cluster.settle()
    assert not cluster.cloud.rented
    (reason,) = user.get(f"/api/v1/why/experiment/{id}")["reasons"]
    assert "its price is read again at 00:30:00 UTC" in reason["sentence"]
    cluster.market.prices = {A: Decimal("0.42")}
    cluster.pass_time(seconds=prices.INTERVAL.total_seconds() + 1)
    channels: list[str] = []
    cluster.api.ctx.waker = SimpleNamespace(wake=channels.append)
    cluster.api.tick()
    assert "provision" in channels, "the clouds are called only when that is asked for"
    cluster.settle()
    assert len(cluster.cloud.alive()) == 1


def test_zone_without_the_type_is_skipped(cluster: RentedCluster, user: Caller) -> None:
    cluster.market.zones = {"g5.1": ("us-east-1b",)}
    cluster.settle(1)
    create(user, activate=True)
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    assert machine.zone == "us-east-1b"
    assert [o["isOffered"] for o in shown(user)["offers"]] == [False, True]


def test_machine_has_the_price_of_the_zone_chosen_by_the_cloud(
    database: Database, tmp_path: Path
) -> None:
    with rented_cluster(database, tmp_path, offers=(replace(IN_A, zone=""),)) as cluster:
        cluster.market.prices = {A: Decimal("0.37"), B: Decimal("0.60")}
        cluster.market.zones = {"g5.1": ("us-east-1a", "us-east-1b")}
        cluster.settle(1)
        user = cluster.api.signed_in("determined")
        assert shown(user)["offers"][0]["priceUsdHour"] == 0.6
        create(user, activate=True)
        cluster.settle()
        (instance,) = cluster.instances()
        assert (instance["zone"], instance["priceUsdHour"]) == ("us-east-1a", 0.37)
