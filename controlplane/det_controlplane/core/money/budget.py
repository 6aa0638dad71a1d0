"""Budgets in money: what is spent in a scope, and what follows from it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum


class BudgetScope(str, Enum):
    """Name the thing that a budget bounds."""

    EXPERIMENT = "experiment"
    USER = "user"
    WORKSPACE = "workspace"
    POOL = "pool"


class BudgetPeriod(str, Enum):
    """The period whose spending counts."""

    TOTAL = "total"
    MONTH = "month"  # the calendar month, in UTC


class BudgetState(str, Enum):
    WITHIN = "WITHIN"
    WARNED = "WARNED"  # four fifths are spent
    DRAINING = "DRAINING"  # all is spent: what runs checkpoints and stops, nothing new starts
    STOPPED = "STOPPED"  # what did not stop by itself was killed


WARN_AT = Decimal("0.8")
# Checkpoints of what drains cost money too; what spends more than this is not stopping.
KILL_AT = Decimal("1.1")


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit in US dollars; `scope_id` is an experiment's or user's number, a workspace's number or a pool's name."""

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
    """Return that a budget is spent, with the way out."""
    return f"{budget.name} is spent; raise it with `det budget set`"


def is_worse(state: BudgetState, than: BudgetState) -> bool:
    return _ORDER.index(state) > _ORDER.index(than)


def state_of(budget: Budget, spent_usd: Decimal) -> BudgetState:
    """Return the state that spending calls for. A new month, or a higher limit, lets work go on."""
    if spent_usd >= budget.limit_usd * KILL_AT:
        return BudgetState.STOPPED
    if spent_usd >= budget.limit_usd:
        return BudgetState.DRAINING
    if spent_usd >= budget.limit_usd * WARN_AT:
        return BudgetState.WARNED
    return BudgetState.WITHIN


def starts_at(period: BudgetPeriod, now: datetime) -> datetime | None:
    """Return from when on spending counts, None for always."""
    if period is BudgetPeriod.TOTAL:
        return None
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def ends_at(period: BudgetPeriod, now: datetime) -> datetime | None:
    """Return when spending counts from zero again, None for never."""
    begun = starts_at(period, now)
    return None if begun is None else (begun + timedelta(days=31)).replace(day=1)


def is_spent(state: BudgetState) -> bool:
    """Return whether nothing new may start."""
    return state in (BudgetState.DRAINING, BudgetState.STOPPED)
