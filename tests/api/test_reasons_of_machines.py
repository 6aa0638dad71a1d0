"""Reasons for a user who must act: the cause, the fix, its place, and the next attempt."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.core.provision.model import Limits, RefusalKind
from det_controlplane.core.provision.offers import Offer, Scope
from det_controlplane.db.engine.database import Database

from tests.support.api import Caller, create
from tests.support.rented import OFFERS, RentedCluster, offer, rented_cluster

LIMITS = Limits()
QUOTA = 'Request more of the quota "All G and VT Spot Instance Requests" in us-east-1'
DENIED = "Grant ec2:RunInstances to the role that launches machines"


def refusing(kind: RefusalKind, sentence: str) -> Callable[[RentedCluster, Caller], None]:
    def prepare(cluster: RentedCluster, admin: Caller) -> None:
        cluster.cloud.refuse(Scope("aws", "us-east-1"), kind, sentence)

    return prepare


def held(cluster: RentedCluster, admin: Caller) -> None:
    admin.post("/api/v1/rented-pools/default/hold", {"reason": "the bill"})


def taken(cluster: RentedCluster, admin: Caller) -> None:
    create(admin, activate=True, resources={"slots_per_trial": 1})
    cluster.settle(1)


def silent(cluster: RentedCluster, admin: Caller) -> None:
    cluster.cloud.connected = False


def nothing(cluster: RentedCluster, admin: Caller) -> None:
    return None


@dataclass(frozen=True)
class Case:
    prepare: Callable[[RentedCluster, Caller], None]
    sentence: str
    limits: Limits = LIMITS
    offers: tuple[Offer, ...] = OFFERS
    minutes: int = 0  # of tries


CASES = {
    "no capacity": Case(
        refusing(RefusalKind.NO_CAPACITY, "no room"),
        "needs 1 slot; no offer that fits can be rented now: aws us-east-1a g5.1 spot and 3 more: no room;"
        " tried again at 00:03:00 UTC",
    ),
    "quota": Case(
        refusing(RefusalKind.QUOTA, QUOTA),
        f"needs 1 slot; no offer that fits can be rented now: aws us-east-1a g5.1 spot and 3 more: {QUOTA};"
        " tried again at 00:00:30 UTC",
    ),
    "permission, again and again": Case(
        refusing(RefusalKind.DENIED, DENIED),
        f"needs 1 slot; the pool rents no machines: {DENIED}; tried again at 00:15:30 UTC",
        minutes=10,
    ),
    "invalid": Case(
        refusing(RefusalKind.INVALID, "the image ami-1 is not there"),
        "needs 1 slot; the pool rents no machines: the image ami-1 is not there; correct it;"
        " an administrator can end this with `det pool resume default`",
    ),
    "price cap": Case(
        nothing,
        "needs 1 slot; no offer that fits can be rented now: aws us-east-1a g5.1 spot: costs $0.40 an hour,"
        " above its max_price $0.20; raise that, or add cheaper offers; its price is read again"
        " at 00:30:00 UTC",
        offers=(offer("0.40", max_price_usd_hour=Decimal("0.20")),),
    ),
    "hold": Case(
        held,
        "needs 1 slot; the pool rents no machines: held by admin: the bill;"
        " an administrator can end this with `det pool resume default`",
    ),
    "max_instances": Case(
        taken,
        "needs 4 slots on one agent or on wholly free agents of one size; the pool has 1 of at most"
        " 1 machines (max_instances); it starts when enough is free, or with a larger max_instances",
        limits=Limits(max_instances=1),
    ),
    "max_hourly_cost": Case(
        taken,
        "needs 4 slots on one agent or on wholly free agents of one size; the pool's machines cost $0.40 of at most"
        " $1.60 an hour (max_hourly_cost);"
        " the cheapest that fits is 4 × aws us-east-1a g5.1 spot at $0.40 an hour;"
        " it starts when enough is free, or with a larger max_hourly_cost",
        limits=Limits(max_hourly_cost=Decimal("1.60")),
    ),
    "starting": Case(
        nothing,
        "needs 1 slot; waiting for aws us-east-1a g5.1 spot, requested at 00:00:00 UTC; replaced unless it joins by"
        " 00:20:00 UTC",
    ),
    "no answer": Case(
        silent,
        "needs 1 slot; waiting for aws us-east-1a g5.1 spot, requested at 00:00:00 UTC; aws does not answer,"
        " and is asked again every few seconds: aws did not answer",
    ),
}  # fmt: skip


@pytest.fixture
def cluster(database: Database, tmp_path: Path, case: Case) -> Iterator[RentedCluster]:
    with rented_cluster(database, tmp_path, case.offers, case.limits) as rented_machines:
        yield rented_machines


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_reason_has_cause_remedy_and_next_try(cluster: RentedCluster, case: Case) -> None:
    admin = cluster.api.signed_in("admin")
    case.prepare(cluster, admin)
    slots = 4 if case.prepare is taken else 1
    id = create(admin, activate=True, resources={"slots_per_trial": slots})
    cluster.settle()
    for _ in range(case.minutes * 2):
        cluster.pass_time(seconds=30)
        cluster.settle(2)
    (reason,) = admin.get(f"/api/v1/why/experiment/{id}")["reasons"]
    assert reason["sentence"] == case.sentence
    waiting: list[dict[str, Any]] = admin.get("/api/v1/rented-pools/default")["pool"]["waiting"]
    assert any(case.sentence.endswith(w["sentence"].partition("; ")[2]) for w in waiting)


@pytest.mark.parametrize("case", [Case(nothing, "")])
def test_reason_names_the_budget_that_stopped_the_work(cluster: RentedCluster) -> None:
    admin = cluster.api.signed_in("admin")
    id = create(admin, activate=True)
    _, agent = cluster.employ()
    (order,) = agent.running.values()
    admin.post(f"/api/v1/allocations/{order['allocation_id']}/ready")
    admin.done("PUT", "/api/v1/budgets", {"scope": "user", "of": "admin", "limitUsd": "0.10"})
    for _ in range(48):
        cluster.pass_time(seconds=20)
        agent.poll()
    cluster.settle(2)
    (reason,) = admin.get(f"/api/v1/why/experiment/{id}")["reasons"]
    message = "the budget of user admin ($0.10) is spent; raise it with `det budget set`"
    assert reason["sentence"] == (
        f"was asked to checkpoint and stop: the experiment was paused, because {message}"
    )
    admin.post(f"/api/v1/allocations/{reason['allocationId']}/signals/ack_preemption", {})
    agent.finish()
    cluster.settle()
    (reason,) = admin.get(f"/api/v1/why/experiment/{id}")["reasons"]
    assert (
        reason["sentence"]
        == f"is paused because {message}, then resume with `det experiment activate {id}`"
    )
