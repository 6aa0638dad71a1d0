"""Budgets at the change of a month, and their deadlines without further events."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from det_controlplane.core.money.budget import BudgetState
from det_controlplane.db.engine.errors import TryAgain
from det_controlplane.db.money import budgets as rows
from det_controlplane.services.maintenance import tick

from tests.support.api import Api, Caller, create
from tests.support.rented import RentedCluster, reason

FEBRUARY = datetime(2026, 2, 1, tzinfo=timezone.utc)


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def set_spent(cluster: RentedCluster, admin: Caller, period: str) -> None:
    """Give the pool a budget that is spent."""
    body = {"scope": "pool", "of": "default", "limitUsd": "0.10", "period": period}
    new_budget = admin.done("PUT", "/api/v1/budgets", body)["budget"]
    with cluster.api.ctx.db.begin() as tx:
        budget = rows.one(tx, new_budget["id"])
        assert budget is not None
        assert rows.set_state(tx, budget, BudgetState.STOPPED, cluster.api.ctx.now())


def test_conflicting_budget_update_is_retried(
    cluster: RentedCluster, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = cluster.api.ctx
    set_spent(cluster, admin, "month")
    cluster.time = FEBRUARY

    def meet_a_conflict(*_: object) -> bool:
        raise TryAgain("deadlock detected")

    monkeypatch.setattr(rows, "set_state", meet_a_conflict)
    with pytest.raises(TryAgain):
        tick.run(ctx)
    monkeypatch.undo()
    tick.run(ctx)
    (budget,) = cluster.api.signed_in("admin").get("/api/v1/budgets")["budgets"]
    assert budget["state"] == "WITHIN"


def test_work_waiting_for_a_budget_causes_no_further_ticks(
    cluster: RentedCluster, user: Caller, admin: Caller
) -> None:
    experiment_id = create(user, activate=True)
    set_spent(cluster, admin, "total")
    cluster.settle()
    assert (cluster.instances(), tick.run(cluster.api.ctx)) == ([], None)
    assert "is spent" in reason(user, experiment_id)


@pytest.mark.parametrize("kept", [0, 1])
def test_work_waiting_for_a_new_month_starts_with_it(
    cluster: RentedCluster, user: Caller, admin: Caller, kept: int
) -> None:
    (default,) = cluster.api.ctx.config.resource_pools
    pool = replace(default, limits=replace(default.limits, min_instances=kept))
    cluster.api.ctx.config = replace(cluster.api.ctx.config, resource_pools=(pool,))
    experiment_id = 0 if kept else create(user, activate=True)
    set_spent(cluster, admin, "month")
    cluster.settle()
    assert tick.run(cluster.api.ctx) == (FEBRUARY - cluster.time).total_seconds()
    assert not cluster.instances()
    if experiment_id:
        assert "is spent" in reason(user, experiment_id)
    cluster.time = FEBRUARY + timedelta(seconds=1)
    tick.run(cluster.api.ctx)
    assert len(cluster.instances()) == 1
