"""Costs and budgets: ours, not Determined's."""

from datetime import datetime, timezone

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
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


def of_experiments(ctx: Context, request: Request) -> Answer:
    return json_response({"costs": costs.of_experiments(ctx, request.integers("ids"))})


def of_trials(ctx: Context, request: Request) -> Answer:
    return json_response({"costs": costs.of_trials(ctx, request.integers("ids"))})


def of_tasks(ctx: Context, request: Request) -> Answer:
    return json_response({"costs": costs.of_tasks(ctx, request.texts("ids"))})


def of_runs(ctx: Context, request: Request) -> Answer:
    return json_response({"allocations": costs.of_runs(ctx, request.param("taskId"))})


def by_user(ctx: Context, request: Request) -> Answer:
    period = _time(request, "after"), _time(request, "before")
    return json_response({"costs": costs.by_user(ctx, *period)})


def of_caller(ctx: Context, request: Request) -> Answer:
    period = _time(request, "after"), _time(request, "before")
    return json_response({"costs": costs.by_user(ctx, *period, user_of(request).id)})


def by_pool(ctx: Context, request: Request) -> Answer:
    period = _time(request, "after"), _time(request, "before")
    return json_response({"costs": costs.by_pool(ctx, *period)})


def _time(request: Request, name: str) -> datetime | None:
    text = request.text(name)
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
        found = found.astimezone(timezone.utc) if found and found.tzinfo else None
    except (ValueError, OverflowError):
        found = None
    if text and found is None:
        raise BadRequest(f"{name} must be a time like 2026-01-31T00:00:00Z, not {text!r}")
    return found


def list_budgets(ctx: Context, request: Request) -> Answer:
    return json_response({"budgets": budgets.listed(ctx, user_of(request))})


def put_budget(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    made = budgets.put(
        ctx,
        user_of(request),
        body.required_text("scope"),
        body.required_text("of"),
        body.required_text("limitUsd"),
        body.text("period"),
    )
    return json_response({"budget": made})


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
