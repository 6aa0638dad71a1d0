"""Costs and budgets: ours, not Determined's."""

from dataclasses import dataclass, field
from datetime import datetime, timezone

from det_controlplane.api.auth import user_of
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import EMPTY, Answer, Request, json_response
from det_controlplane.api.router import delete, get, put
from det_controlplane.core.people.permissions import (
    TaskRule,
    by_service,
    in_cluster,
    in_path,
    in_query,
    require,
)
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.maintenance import budgets
from det_controlplane.services.money import costs


@dataclass(frozen=True)
class NumberQuery:
    ids: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class TaskQuery:
    ids: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PeriodQuery:
    after: str = ""
    before: str = ""

    def times(self) -> tuple[datetime | None, datetime | None]:
        """Return the begin and the end; raise BadRequest for a text that is not a time with a zone."""
        return _time(self.after, "after"), _time(self.before, "before")


@dataclass(frozen=True)
class NewBudget:
    scope: str
    of: str
    limit_usd: str
    period: str = ""


def of_experiments(ctx: Context, request: Request, query: NumberQuery) -> Answer:
    return json_response({"costs": costs.of_experiments(ctx, query.ids)})


def of_trials(ctx: Context, request: Request, query: NumberQuery) -> Answer:
    return json_response({"costs": costs.of_trials(ctx, query.ids)})


def of_tasks(ctx: Context, request: Request, query: TaskQuery) -> Answer:
    return json_response({"costs": costs.of_tasks(ctx, query.ids)})


def of_runs(ctx: Context, request: Request) -> Answer:
    return json_response({"allocations": costs.of_runs(ctx, request.param("taskId"))})


def by_user(ctx: Context, request: Request, query: PeriodQuery) -> Answer:
    return json_response({"costs": costs.by_user(ctx, *query.times())})


def of_caller(ctx: Context, request: Request, query: PeriodQuery) -> Answer:
    return json_response({"costs": costs.by_user(ctx, *query.times(), user_of(request).id)})


def by_pool(ctx: Context, request: Request, query: PeriodQuery) -> Answer:
    return json_response({"costs": costs.by_pool(ctx, *query.times())})


def _time(text: str, name: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
        time = time.astimezone(timezone.utc) if time and time.tzinfo else None
    except (ValueError, OverflowError):
        time = None
    if text and time is None:
        raise BadRequest(f"{name} must be a time like 2026-01-31T00:00:00Z, not {text!r}")
    return time


def list_budgets(ctx: Context, request: Request) -> Answer:
    return json_response({"budgets": budgets.listed(ctx, user_of(request))})


def put_budget(ctx: Context, request: Request, body: NewBudget) -> Answer:
    caller = user_of(request)
    budget = budgets.put(ctx, caller, body.scope, body.of, body.limit_usd, body.period)
    return json_response({"budget": budget})


def delete_budget(ctx: Context, request: Request) -> Answer:
    budgets.remove(ctx, user_of(request), request.id("budgetId"))
    return EMPTY


_C, _B = "/api/v1/costs", "/api/v1/budgets"
ROUTES = (
    get(
        f"{_C}/experiments",
        of_experiments,
        summary="What experiments cost",
        from_replica=True,
        rule=require(
            in_query(Right.VIEW_EXPERIMENT_METADATA, "experiment", "ids"), task=TaskRule.READ
        ),
    ),
    get(
        f"{_C}/me",
        of_caller,
        summary="What the caller's work cost",
        from_replica=True,
        rule=require(task=TaskRule.READ),
    ),
    get(
        f"{_C}/trials",
        of_trials,
        summary="What trials cost",
        from_replica=True,
        rule=require(in_query(Right.VIEW_EXPERIMENT_METADATA, "trial", "ids"), task=TaskRule.READ),
    ),
    get(
        f"{_C}/tasks",
        of_tasks,
        summary="What tasks cost",
        rule=require(in_query(Right.VIEW_EXPERIMENT_METADATA, "task", "ids"), task=TaskRule.READ),
    ),
    get(
        f"{_C}/tasks/{{taskId}}/allocations",
        of_runs,
        summary="What each allocation of a task cost, and its machines",
        rule=require(in_path(Right.VIEW_EXPERIMENT_METADATA, "task", "taskId"), task=TaskRule.READ),
    ),
    get(
        f"{_C}/users",
        by_user,
        summary="What the work of each user cost",
        from_replica=True,
        rule=require(in_cluster(Right.VIEW_CLUSTER_USAGE), task=TaskRule.READ),
    ),
    get(
        f"{_C}/pools",
        by_pool,
        summary="What the machines of each pool cost, at work and idle",
        from_replica=True,
        rule=require(in_cluster(Right.VIEW_CLUSTER_USAGE), task=TaskRule.READ),
    ),
    get(
        _B,
        list_budgets,
        summary="Budgets and what is spent of them",
        rule=require(by_service(Right.VIEW_EXPERIMENT_METADATA), task=TaskRule.READ),
    ),
    put(
        _B,
        put_budget,
        summary="Set a budget",
        rule=require(by_service(Right.UPDATE_EXPERIMENT), task=TaskRule.NEVER),
        audit="budget.set",
    ),
    delete(
        f"{_B}/{{budgetId}}",
        delete_budget,
        summary="Delete a budget",
        rule=require(by_service(Right.UPDATE_EXPERIMENT), task=TaskRule.NEVER),
        audit="budget.delete",
    ),
)
