"""Refuse to start work that a spent budget covers."""

from det_controlplane.core.money.budget import Budget
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.money import budgets
from det_controlplane.services.context import Context
from det_controlplane.services.errors import WrongState


def require(ctx: Context, tx: Tx, experiment_id: int) -> None:
    """Refuse to start an experiment that a spent budget covers."""
    if ctx.config.rents:
        _refuse(budgets.spent_for(tx, experiment_id, ctx.now()))


def require_task(ctx: Context, tx: Tx, task_id: str) -> None:
    """Refuse to start a task if a budget that covers it is spent. Trials are checked elsewhere."""
    if ctx.config.rents:
        _refuse(budgets.spent_for_task(tx, task_id, ctx.now()))


def _refuse(budget: Budget | None) -> None:
    if budget is not None:
        raise WrongState(
            f"{budget.name} is spent: raise it with `det budget set`, or wait for its next period"
        )
