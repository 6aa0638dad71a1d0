"""Budgets: set by users, and checked and enforced while machines are rented."""

import contextlib
import logging
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, TypeVar

from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.core.money.budget import (
    Budget,
    BudgetPeriod,
    BudgetScope,
    BudgetState,
    is_spent,
    is_worse,
    sentence_of,
    starts_at,
    state_of,
)
from det_controlplane.core.numerals import whole
from det_controlplane.core.people.permissions import KINDS
from det_controlplane.core.people.roles import Right
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.experiments import experiments
from det_controlplane.db.logs import logs
from det_controlplane.db.machines import machines
from det_controlplane.db.money import budgets, costs
from det_controlplane.db.people import users, workspaces
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, WrongState
from det_controlplane.services.experiments import actions, live
from det_controlplane.services.identity.rights import require_admin, require_owner
from det_controlplane.services.identity.route_rights import require_things
from det_controlplane.services.money.costs import span
from det_controlplane.services.principal import User
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.use_case import WEBHOOKS_TOPIC, Change, change
from det_controlplane.services.webhooks import events

log = logging.getLogger("det.budgets")

INTERVAL = timedelta(minutes=1)
E = TypeVar("E", bound=Enum)


def listed(ctx: Context, caller: User) -> list[dict[str, Any]]:
    with ctx.db.autocommit() as tx:
        return [_budget_json(ctx, tx, b) for b in budgets.every(tx) if _is_seen(ctx, caller, b)]


def _is_seen(ctx: Context, caller: User, budget: Budget) -> bool:
    """Return whether a caller may see a budget: budgets of visible objects and the caller's own."""
    if Right.VIEW_CLUSTER_USAGE in caller.grants.everywhere:
        return True
    if budget.scope is BudgetScope.USER:
        return budget.scope_id == str(caller.id)
    if budget.scope not in (BudgetScope.EXPERIMENT, BudgetScope.WORKSPACE):
        return False
    right, kind = KINDS[budget.scope.value], budget.scope.value
    try:
        require_things(ctx, caller, right, kind, [budget.scope_id])
    except Missing:
        return False
    return True


def _budget_json(ctx: Context, tx: Tx, budget: Budget) -> dict[str, Any]:
    spent = spent_of(ctx, tx, budget)
    return {
        "id": budget.id, "scope": budget.scope.value, "scopeId": budget.scope_id, "scopeName": budget.scope_name,
        "limitUsd": float(budget.limit_usd), "period": budget.period.value, "spentUsd": float(round(spent, 6)),
        "state": budget.state.value,
    }  # fmt: skip


def spent_of(ctx: Context, tx: Tx, budget: Budget) -> Decimal:
    period = span(ctx, starts_at(budget.period, ctx.now()))
    return costs.spent(tx, budget.scope, budget.scope_id, period)


def put(ctx: Context, caller: User, scope: str, of: str, limit: str, period: str) -> dict[str, Any]:
    """Set the budget of an experiment, user, workspace or pool."""
    amount = _amount(limit)
    kind = _member(BudgetScope, scope, "scope")
    each = _member(BudgetPeriod, period or BudgetPeriod.TOTAL.value, "period")
    with change(ctx) as changed:
        scope_id = _scope_id(ctx, changed.tx, caller, kind, of)
        budget = budgets.put(changed.tx, kind, scope_id, amount, each, changed.now)
        spent = spent_of(ctx, changed.tx, budget)
        changed.wake("schedule")
    state = state_of(budget, spent)
    if state is not budget.state:  # without machines no tick looks at budgets
        _change_state(ctx, budget, state, spent)
    with ctx.db.autocommit() as tx:
        return _budget_json(ctx, tx, budgets.one(tx, budget.id) or budget)


def _amount(limit: str) -> Decimal:
    """Return the amount in whole cents, as it is kept."""
    try:
        amount = Decimal(limit).quantize(Decimal("0.01"))
    except InvalidOperation:
        amount = Decimal(0)
    if not amount.is_finite() or not 0 < amount < 10**12:
        bounds = "above 0, of a cent at least, and below 10^12"
        raise Invalid(f"a budget must be an amount in US dollars {bounds}, not {limit!r}")
    return amount


def _member(kind: type[E], value: str, name: str) -> E:
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(str(m.value) for m in kind)
        raise Invalid(f"{name} must be one of {names}, not {value!r}") from None


def _scope_id(ctx: Context, tx: Tx, caller: User, scope: BudgetScope, of: str) -> str:
    """Check the right to set a budget, and return the id of its object."""
    if scope is BudgetScope.EXPERIMENT:
        owner = experiments.owner(tx, int(of)) if whole(of) is not None and len(of) < 10 else None
        if owner is None:
            raise Missing(f"experiment {of} not found")
        require_things(ctx, caller, Right.UPDATE_EXPERIMENT, "experiment", [of])
        require_owner(caller, owner, f"set the budget of experiment {of}")
        return of
    require_admin(caller, f"set the budget of a {scope.value}")
    if scope is BudgetScope.POOL:
        if ctx.config.pool(of) is None:
            names = ", ".join(p.pool_name for p in ctx.config.resource_pools)
            raise Missing(f"resource pool '{of}' not found; this cluster has: {names}")
        return of
    if scope is BudgetScope.USER:
        user = users.by_name(tx, of)
        object_id = None if user is None else user["id"]
    else:
        object_id = next(iter(workspaces.named(tx, [], [of])), None)
    if object_id is None:
        raise Missing(f"{scope.value} '{of}' not found")
    return str(object_id)


def remove(ctx: Context, caller: User, id: int) -> None:
    """Forget a budget; a pool that it held launches again, experiments that it paused stay paused."""
    with change(ctx) as changed:
        budget = budgets.one(changed.tx, id)
        if budget is None:
            raise Missing(f"budget {id} not found; `det budget list` shows them")
        if budget.scope is BudgetScope.EXPERIMENT:
            owner = experiments.owner(changed.tx, int(budget.scope_id))
            require_owner(caller, owner or 0, "delete the budget of an experiment")
        else:
            require_admin(caller, "delete budgets")
        budgets.remove(changed.tx, id)
        _mark_pool_changed(changed, budget)


def _mark_pool_changed(change: Change, budget: Budget) -> None:
    """Make the pool check its budget. While the budget is spent, the pool does not rent."""
    if budget.scope is BudgetScope.POOL:
        change.queue_changed(budget.scope_id)


def next_due(ctx: Context, tx: Tx) -> datetime | None:
    """Return the time of the next budget check, or None. Without running machines, only a new month needs a check."""
    if not ctx.config.rents:
        return None
    since, outlived = budgets.oldest_check(tx, ctx.now())
    if since is None or not (outlived or machines.any_live(tx)):
        return None
    return since + INTERVAL


def enforce_if_due(ctx: Context) -> None:
    with ctx.db.autocommit() as tx:
        due = next_due(ctx, tx)
    if due is not None and due <= ctx.now():
        enforce(ctx)


def enforce(ctx: Context) -> None:
    """Compare every budget with its costs; warn, drain and stop."""
    with ctx.db.begin() as tx:
        spent = [(b, spent_of(ctx, tx, b)) for b in budgets.every(tx)]
        looked = [(b, usd, state_of(b, usd)) for b, usd in spent]
        # The others are due until their change is written.
        same = [b.id for b, _, state in looked if state is b.state]
        budgets.set_checked(tx, same, ctx.now())
    for budget, usd, state in looked:
        if state is not budget.state:
            _change_state(ctx, budget, state, usd)
        if is_spent(state):
            _stop_work(ctx, replace(budget, state=state))


def _change_state(ctx: Context, budget: Budget, state: BudgetState, spent: Decimal) -> None:
    with change(ctx) as changed:
        if not budgets.set_state(changed.tx, budget, state, changed.now):
            return
        _mark_pool_changed(changed, budget)
        if state is BudgetState.WARNED and budget.state is BudgetState.WITHIN:
            _warn(changed, budget, spent)
        if is_worse(state, budget.state) and events.queue_budget_messages(
            changed.tx, budget, state, spent, changed.now
        ):
            changed.wake(WEBHOOKS_TOPIC)
    level = logging.INFO if state is BudgetState.WITHIN else logging.WARNING
    log.log(level, "%s: $%.2f", sentence_of(budget, state), spent)


def _warn(change: Change, budget: Budget, spent: Decimal) -> None:
    """Write to the logs of running work that its budget is nearly spent."""
    line = (
        f"{budget.name} is nearly spent: ${spent:.2f}. At its end experiments save a checkpoint and pause;"
        " raise it with `det budget set`."
    )
    for task_id in budgets.running_tasks(change.tx, budget):
        logs.add_line(change.tx, task_id, line, change.now, "WARNING")
        change.wake(f"logs:{task_id}")


def _stop_work(ctx: Context, budget: Budget) -> None:
    """Pause the work of a budget, so that it saves checkpoints, and kill work that does not stop.

    The budget may be deleted or raised meanwhile, so each step checks it again."""
    with ctx.db.autocommit() as tx:
        active = budgets.active_experiments(tx, budget)
        is_exceeded = budget.state is BudgetState.STOPPED
        lingering = budgets.running(tx, budget) if is_exceeded else []
    for experiment_id in active:
        with (
            contextlib.suppress(WrongState, Missing),
            live.locked_experiment(ctx, experiment_id) as experiment,
        ):
            if budgets.is_current(experiment.tx, budget):
                actions.carry_out(experiment, Command.PAUSE)
                log.warning(
                    "experiment %d was paused: %s is spent", experiment_id, budget.name,
                    extra={"experiment_id": experiment_id},
                )  # fmt: skip
    for allocation_id in lingering:
        with change(ctx) as changed:
            if budgets.is_current(changed.tx, budget):
                stopping.kill_now(changed, allocation_id, f"{budget.name} is exceeded")
