"""Rows of budgets, and the experiments that they are about."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from sqlalchemy import ColumnElement, TextClause, and_, delete, select, text, update
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.money.budget import Budget, BudgetPeriod, BudgetScope, BudgetState
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema import budgets

_b = budgets.c
_NAME = text("""(CASE budgets.scope WHEN 'user' THEN (SELECT u.username FROM users u WHERE u.id::text = budgets.scope_id)
    WHEN 'workspace' THEN (SELECT w.name FROM workspaces w WHERE w.id::text = budgets.scope_id)
    ELSE budgets.scope_id END) AS scope_name""")
_COLUMNS = (_b.id, _b.scope, _b.scope_id, _NAME, _b.limit_usd, _b.period, _b.state)
_PUT = insert(budgets)
_SET = _PUT.on_conflict_do_update(
    index_elements=[_b.scope, _b.scope_id],
    set_={name: _PUT.excluded[name] for name in ("limit_usd", "period", "set_at")},
).returning(_b.id)
_ACTIVE = text("""
    SELECT e.id FROM experiments e JOIN jobs j ON j.id = e.job_id JOIN projects p ON p.id = e.project_id
    WHERE e.state = 'ACTIVE' AND NOT e.unmanaged AND CASE cast(:scope AS text) WHEN 'experiment' THEN e.id::text = :scope_id
        WHEN 'user' THEN e.user_id::text = :scope_id WHEN 'workspace' THEN p.workspace_id::text = :scope_id
        ELSE j.pool = :scope_id END
    ORDER BY e.id
""")
# Tasks without slots cost users nothing but keep the machines of their pool. Tasks that delete checkpoints are
# excluded: they end soon, and killing them would leave the checkpoints forever.
_WORK = """
    FROM allocations a JOIN tasks k ON k.id = a.task_id JOIN jobs j ON j.id = a.job_id
    LEFT JOIN experiments e ON e.job_id = j.id LEFT JOIN projects p ON p.id = e.project_id
    WHERE a.state NOT IN ('QUEUED', 'TERMINATED') AND NOT a.killed AND k.kind <> 'CHECKPOINT_GC'
        AND CASE cast(:scope AS text) WHEN 'experiment' THEN e.id::text = :scope_id WHEN 'pool' THEN j.pool = :scope_id
        ELSE (e.id IS NOT NULL OR a.slots > 0) AND :scope_id = CASE cast(:scope AS text)
            WHEN 'user' THEN coalesce(e.user_id, j.user_id) ELSE coalesce(p.workspace_id, j.workspace_id) END::text END
"""
_RUNNING = text(f"SELECT a.id {_WORK} ORDER BY a.id")
_RUNNING_TASKS = text(f"SELECT DISTINCT a.task_id {_WORK} ORDER BY a.task_id")
# Costs of an earlier month do not count, even if no tick has looked since.
_OUTLIVED = (
    "(b.period = 'month' AND b.checked_at < date_trunc('month', cast(:now AS timestamptz), 'UTC'))"
)
_COVERING_TASK = text(f"""
    SELECT b.id FROM budgets b JOIN tasks k ON k.id = :task JOIN jobs j ON j.id = k.job_id
    WHERE b.state IN ('DRAINING', 'STOPPED') AND NOT {_OUTLIVED} AND b.scope_id = CASE b.scope WHEN 'user' THEN j.user_id::text
        WHEN 'workspace' THEN j.workspace_id::text WHEN 'pool' THEN j.pool END
    ORDER BY b.id LIMIT 1
""")


def _select_covering_budget(state: str) -> TextClause:
    return text(f"""
        SELECT b.id FROM budgets b JOIN experiments e ON e.id = :experiment JOIN jobs j ON j.id = e.job_id
        JOIN projects p ON p.id = e.project_id
        WHERE b.state {state} AND NOT {_OUTLIVED} AND b.scope_id = CASE b.scope WHEN 'experiment' THEN e.id::text
            WHEN 'user' THEN e.user_id::text WHEN 'workspace' THEN p.workspace_id::text ELSE j.pool END
        ORDER BY b.id LIMIT 1
    """)


_COVERING, _WARNING = (
    _select_covering_budget("IN ('DRAINING', 'STOPPED')"),
    _select_covering_budget("= 'WARNED'"),
)
_SPENT_OF_POOLS = text(
    f"SELECT b.id FROM budgets b WHERE b.scope = 'pool' AND b.state IN ('DRAINING', 'STOPPED') AND NOT {_OUTLIVED}"
)
_OLDEST_CHECK = text(
    f"SELECT min(b.checked_at), coalesce(bool_or(b.state <> 'WITHIN' AND {_OUTLIVED}), false) FROM budgets b"
)


def every(tx: Tx) -> list[Budget]:
    return [Budget(*r) for r in tx.execute(select(*_COLUMNS).order_by(_b.id)).all()]


def one(tx: Tx, id: int) -> Budget | None:
    row = tx.execute(select(*_COLUMNS).where(_b.id == id)).first()
    return None if row is None else Budget(*row)


def put(
    tx: Tx,
    scope: BudgetScope,
    scope_id: str,
    limit_usd: Decimal,
    period: BudgetPeriod,
    now: datetime,
) -> Budget:
    """Set the budget of a scope; it keeps its state until it is looked at next."""
    row = {
        "scope": scope, "scope_id": scope_id, "limit_usd": limit_usd, "period": period, "set_at": now, "checked_at": now,
    }  # fmt: skip
    budget = one(tx, tx.execute(_SET, row).scalar_one())
    assert budget is not None
    return budget


def oldest_check(tx: Tx, now: datetime) -> tuple[datetime | None, bool]:
    """Return the oldest time of a budget check, and whether the month of a spent budget has ended since."""
    since, month_ended = tx.execute(_OLDEST_CHECK, {"now": now}).one()
    return since, month_ended


def set_checked(tx: Tx, ids: Sequence[int], now: datetime) -> None:
    tx.execute(update(budgets).where(_b.id.in_(ids)).values(checked_at=now))


def remove(tx: Tx, id: int) -> bool:
    return tx.execute(delete(budgets).where(_b.id == id)).rowcount > 0


def set_state(tx: Tx, budget: Budget, state: BudgetState, now: datetime) -> bool:
    """Change the state of a budget if it has not changed since it was read."""
    values = {"state": state, "checked_at": now}
    return tx.execute(update(budgets).where(_is(budget)).values(values)).rowcount > 0


def is_current(tx: Tx, budget: Budget) -> bool:
    """Return whether a budget is unchanged, and lock it until the transaction ends."""
    same = select(_b.id).where(_is(budget)).with_for_update(read=True)
    return tx.execute(same).first() is not None


def _is(budget: Budget) -> ColumnElement[bool]:
    return and_(
        _b.id == budget.id,
        _b.limit_usd == budget.limit_usd,
        _b.period == budget.period,
        _b.state == budget.state,
    )


def active_experiments(tx: Tx, budget: Budget) -> list[int]:
    return list(tx.execute(_ACTIVE, _scope(budget)).scalars())


def running(tx: Tx, budget: Budget) -> list[str]:
    """Return the allocations that spend a budget and were not killed."""
    return list(tx.execute(_RUNNING, _scope(budget)).scalars())


def running_tasks(tx: Tx, budget: Budget) -> list[str]:
    """Return the tasks in the scope of a budget."""
    return list(tx.execute(_RUNNING_TASKS, _scope(budget)).scalars())


def spent_for_task(tx: Tx, task_id: str, now: datetime) -> Budget | None:
    """Return a spent budget that covers a task of its own, if there is one."""
    budget_id = tx.execute(_COVERING_TASK, {"task": task_id, "now": now}).scalar()
    return None if budget_id is None else one(tx, budget_id)


def spent_of_pools(tx: Tx, now: datetime) -> dict[str, Budget]:
    """Return the spent budgets of pools, by the pools' names."""
    ids = list(tx.execute(_SPENT_OF_POOLS, {"now": now}).scalars())
    query = select(*_COLUMNS).where(_b.id.in_(ids))
    return {b.scope_id: b for b in (Budget(*r) for r in tx.execute(query).all())} if ids else {}


def _scope(budget: Budget) -> dict[str, str]:
    return {"scope": budget.scope.value, "scope_id": budget.scope_id}


def spent_for(tx: Tx, experiment_id: int, now: datetime) -> Budget | None:
    """Return a spent budget that covers an experiment, if there is one."""
    budget_id = tx.execute(_COVERING, {"experiment": experiment_id, "now": now}).scalar()
    return None if budget_id is None else one(tx, budget_id)


def nearly_spent_for(tx: Tx, experiment_id: int, now: datetime) -> Budget | None:
    """Return a budget that covers an experiment and is nearly spent, if there is one."""
    budget_id = tx.execute(_WARNING, {"experiment": experiment_id, "now": now}).scalar()
    return None if budget_id is None else one(tx, budget_id)
