"""Budgets of months count from zero with each month, whatever fails at that moment."""

from datetime import datetime, timezone

import pytest
from det_controlplane.core.budget import BudgetState
from det_controlplane.db import budgets as rows
from det_controlplane.db.errors import TryAgain
from det_controlplane.services.maintenance import tick

from tests.support.api import Api, Caller
from tests.support.rented import Rented


@pytest.fixture
def api(cluster: Rented) -> Api:
    return cluster.api


def test_a_budget_whose_change_meets_a_conflict_is_looked_at_again(
    cluster: Rented, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = cluster.api.ctx
    wanted = {"scope": "pool", "of": "default", "limitUsd": "0.10", "period": "month"}
    made = admin.done("PUT", "/api/v1/budgets", wanted)["budget"]
    with ctx.db.begin() as tx:
        budget = rows.one(tx, made["id"])
        assert budget is not None
        assert rows.set_state(tx, budget, BudgetState.STOPPED, ctx.now())
    cluster.time = datetime(2026, 2, 1, 0, 5, tzinfo=timezone.utc)

    def meet_a_conflict(*_: object) -> bool:
        raise TryAgain("deadlock detected")

    monkeypatch.setattr(rows, "set_state", meet_a_conflict)
    with pytest.raises(TryAgain):
        tick.run(ctx)
    monkeypatch.undo()
    tick.run(ctx)
    (shown,) = cluster.api.signed_in("admin").get("/api/v1/budgets")["budgets"]
    assert shown["state"] == "WITHIN"
