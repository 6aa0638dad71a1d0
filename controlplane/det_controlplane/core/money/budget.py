"""Budgets in US dollars: the spending of a scope, and the actions that follow from it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum


class BudgetScope(str, Enum):
    """The kind of object that a budget limits."""

    EXPERIMENT = "experiment"
    USER = "user"
    WORKSPACE = "workspace"
    POOL = "pool"


class BudgetPeriod(str, Enum):
    """The period in which spending counts."""

    TOTAL = "total"
    MONTH = "month"  # the calendar month, in UTC


class BudgetState(str, Enum):
    WITHIN = "WITHIN"
    WARNED = "WARNED"  # 80 % is spent
    DRAINING = "DRAINING"  # 100 % is spent: running work checkpoints and stops, no new work starts
    STOPPED = "STOPPED"  # 110 % is spent: work that did not stop was killed


WARN_AT = Decimal("0.8")
# Checkpoints of stopping work cost money too. Work that exceeds this limit is not stopping.
KILL_AT = Decimal("1.1")


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit in US dollars. `scope_id` is the id of an experiment, user or workspace, or the name of a pool."""

    id: int
    scope: BudgetScope
    scope_id: str
    scope_name: str
    limit_usd: Decimal
    period: BudgetPeriod
    state: BudgetState

    @property
    def name(self) -> str:
        per = " a month" if self.period is BudgetPeriod.MONTH else ""
        return f"the budget of {self.scope.value} {self.scope_name} (${self.limit_usd:.2f}{per})"


_MEANS = {
    BudgetState.WITHIN: "has room again",
    BudgetState.WARNED: "is nearly spent",
    BudgetState.DRAINING: "is spent: its experiments checkpoint and pause",
    BudgetState.STOPPED: "is exceeded by a tenth: what still runs is killed",
}
_ORDER = tuple(BudgetState)


def sentence_of(budget: Budget, state: BudgetState) -> str:
    return f"{budget.name} {_MEANS[state]}"


def spent_sentence(budget: Budget) -> str:
    """Return a message that the budget is spent, with the command that raises it."""
    return f"{budget.name} is spent; raise it with `det budget set`"


def is_worse(state: BudgetState, than: BudgetState) -> bool:
    return _ORDER.index(state) > _ORDER.index(than)


def state_of(budget: Budget, spent_usd: Decimal) -> BudgetState:
    """Return the state for this spending. Work continues in a new month or after the limit was raised."""
    if spent_usd >= budget.limit_usd * KILL_AT:
        return BudgetState.STOPPED
    if spent_usd >= budget.limit_usd:
        return BudgetState.DRAINING
    if spent_usd >= budget.limit_usd * WARN_AT:
        return BudgetState.WARNED
    return BudgetState.WITHIN


def starts_at(period: BudgetPeriod, now: datetime) -> datetime | None:
    """Return the time from which spending counts, or None if all spending counts."""
    if period is BudgetPeriod.TOTAL:
        return None
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def ends_at(period: BudgetPeriod, now: datetime) -> datetime | None:
    """Return the time at which spending starts from zero again, or None if it never does."""
    start = starts_at(period, now)
    return None if start is None else (start + timedelta(days=31)).replace(day=1)


def is_spent(state: BudgetState) -> bool:
    """Return whether new work is not allowed to start."""
    return state in (BudgetState.DRAINING, BudgetState.STOPPED)
