"""Report the costs of work and machines, and sum the costs of days that have ended."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, TypeVar

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.money import closed_days, costs
from det_controlplane.db.money.costs import Cost, Span
from det_controlplane.services.context import Context

Id = TypeVar("Id", int, str)
_EVER = datetime(2000, 1, 1, tzinfo=timezone.utc)

# Agents report ends late, and a day that is summed after most of them is summed once.
_GRACE = timedelta(hours=1)


def span(ctx: Context, after: datetime | None = None, before: datetime | None = None) -> Span:
    """Return a period, which ends now where it is open."""
    now = ctx.now()
    return Span(after or _EVER, before or now, now)


def of_experiments(ctx: Context, ids: Sequence[int]) -> list[dict[str, Any]]:
    return _list_costs(ctx, costs.of_experiments, ids)


def of_trials(ctx: Context, ids: Sequence[int]) -> list[dict[str, Any]]:
    return _list_costs(ctx, costs.of_trials, ids)


def of_tasks(ctx: Context, ids: Sequence[str]) -> list[dict[str, Any]]:
    return _list_costs(ctx, costs.of_tasks, ids)


def of_runs(ctx: Context, task_id: str) -> list[dict[str, Any]]:
    """Return the cost and the machines of each allocation of a task."""
    with ctx.db.autocommit() as tx:
        return costs.of_runs(tx, task_id, span(ctx))


def _list_costs(
    ctx: Context, find: Callable[[Tx, Sequence[Id], Span], list[Cost]], ids: Sequence[Id]
) -> list[dict[str, Any]]:
    """Return an entry for each id. Work on machines that are not rented costs nothing."""
    with ctx.db.autocommit() as tx:
        by_id = {c.id: c for c in find(tx, ids, span(ctx))}
    nothing = Decimal(0)
    return [_entry(by_id.get(id, Cost(id, nothing, nothing))) for id in ids]


def _entry(cost: Cost) -> dict[str, Any]:
    return {"id": cost.id, "costUsd": _usd(cost.usd), "slotHours": float(round(cost.slot_hours, 6))}


def _usd(amount: Decimal) -> float:
    return float(round(amount, 6))


def by_user(
    ctx: Context, after: datetime | None, before: datetime | None, user_id: int | None = None
) -> list[dict[str, Any]]:
    """Return the cost of each user's work, or of one user's."""
    with ctx.db.autocommit() as tx:
        rows = costs.by_user(tx, span(ctx, after, before), user_id)
    return [
        {"username": c.name, "costUsd": _usd(c.usd), "slotHours": float(round(c.slot_hours, 6))}
        for c in rows
    ]


def by_pool(ctx: Context, after: datetime | None, before: datetime | None) -> list[dict[str, Any]]:
    """Return the cost of each pool's machines: at work, and idle."""
    with ctx.db.autocommit() as tx:
        rows = costs.by_pool(tx, span(ctx, after, before))
    return [
        {
            "pool": c.name, "costUsd": _usd(c.usd), "workingUsd": _usd(c.working_usd), "idleUsd": _usd(c.idle_usd),
            "slotHours": float(round(c.slot_hours, 6)),
        }
        for c in rows
    ]  # fmt: skip


def sum_ended_days(ctx: Context) -> bool:
    """Announce, fence or sum some days; return whether more days can be summed at once.

    A transaction that is still open delays the sums to a later tick."""
    now = ctx.now()
    newest = (now - _GRACE).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    with ctx.db.autocommit() as tx:
        if not closed_days.is_due(tx, newest):
            return False
    with ctx.db.begin() as tx:
        closed_days.announce(tx, newest)
    with ctx.db.begin() as tx:
        return closed_days.sum_days(tx, now)
