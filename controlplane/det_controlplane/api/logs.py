"""Task and trial logs: NDJSON streams, and the routes that containers and agents ship to."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from det_controlplane.api.auth import user_of
from det_controlplane.api.errors import BadRequest, PermissionDenied
from det_controlplane.api.http import (
    EMPTY,
    REPORT_BODY,
    Answer,
    Batch,
    Request,
    Stream,
    json_response,
    line,
)
from det_controlplane.api.inputs import read
from det_controlplane.api.log_inputs import (
    LogLine,
    LogLines,
    LogQuery,
    LogRetention,
    ShippedLine,
    ShippedLines,
)
from det_controlplane.api.router import Access, Unaudited, get, post, put
from det_controlplane.core.people.permissions import TaskRule, by_service, in_body, in_path, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.identity import reporters, route_rights
from det_controlplane.services.logs import retention, task_logs
from det_controlplane.services.principal import AgentPrincipal

log = logging.getLogger("det.logs")


def trial_logs(ctx: Context, request: Request, query: LogQuery) -> Answer:
    trial_id = request.id("trialId")
    return _stream(ctx, query, task_logs.tasks_of_trial(ctx, trial_id), {"trialId": trial_id})


def follow_task_logs(ctx: Context, request: Request, query: LogQuery) -> Answer:
    task_id = request.param("taskId")
    task_logs.ended_at(ctx, task_id)
    return _stream(ctx, query, [task_id], {})


def _stream(ctx: Context, query: LogQuery, tasks: list[str], extra: dict[str, Any]) -> Stream:
    """Stream the lines of tasks in turn; only the last is followed. The cursor is (task index, last id, lines left)."""
    filters, limit, resumed = query.filters(), query.limit, query.after_id
    task_logs.check(filters)
    follow, descending = query.follow, query.is_descending()
    if follow and descending:
        raise BadRequest("follow cannot be combined with ORDER_BY_DESC")
    order = list(reversed(tasks)) if descending else tasks

    def fetch(cursor: tuple[int, int, int]) -> Batch:
        index, after_id, remaining = cursor
        task_id = order[index]
        if follow:
            task_logs.follow(ctx, task_id)
        is_last = index == len(order) - 1
        # Read the end before the page, so that the page contains all lines written before the end.
        over = not (follow and is_last) or task_logs.ended_at(ctx, task_id) is not None
        page = task_logs.page(
            ctx,
            task_id,
            filters,
            after_id=after_id,
            descending=descending,
            # The lines of a task are stored before its end.
            settled=follow and not over,
        )
        page_lines = page.lines[:remaining] if limit else page.lines
        remaining -= len(page_lines)
        exhausted = not page.full or (limit > 0 and remaining <= 0)
        last = page.last_id
        if exhausted and over:
            index, last = index + 1, resumed
        done = index >= len(order) or (limit > 0 and remaining <= 0 and not follow)
        cursor = min(index, len(order) - 1), last, remaining
        lines = [line({**x.values, **extra}) for x in page_lines]
        return Batch(lines, cursor, done, unfinished=not exhausted)

    return Stream(fetch, (0, resumed, limit), topic=f"logs:{order[-1]}")


def fields(ctx: Context, request: Request) -> Answer:
    if "trialId" in request.params:
        task_ids = task_logs.tasks_of_trial(ctx, request.id("trialId"))
    else:
        task_ids = [request.param("taskId")]
    text = line(task_logs.fields(ctx, task_ids))
    return Stream(lambda cursor: Batch([text], cursor, True))


def post_logs(ctx: Context, request: Request, body: LogLines) -> Answer:
    return _store(ctx, request, body.logs)


def post_bare_logs(ctx: Context, request: Request, body: list[LogLine]) -> Answer:
    return _store(ctx, request, body)


def _store(ctx: Context, request: Request, logs: Sequence[LogLine]) -> Answer:
    user = user_of(request)
    lines = [line.row() for line in logs]
    if user.allocation_id is not None:
        own = user.allocation_id.rpartition(".")[0]
        foreign = next((x["task_id"] for x in lines if x["task_id"] != own), None)
        if foreign is not None:
            raise PermissionDenied(f"a token of task {own} cannot write logs of task {foreign}")
    else:
        tasks = {line["task_id"] for line in lines if line["task_id"]}
        presides = route_rights.require_things(ctx, user, Right.UPDATE_EXPERIMENT, "task", tasks)
        reporters.require_tasks(ctx, replace(user, presides=presides), tasks)
    key = request.headers.get("idempotency-key")
    task_logs.store(ctx, lines, request_key=key, sender=str(user.id))
    return EMPTY


def ship(ctx: Context, request: Request, body: ShippedLines) -> Answer:
    """Store a batch of lines that an agent ships for all its containers."""
    assert isinstance(request.principal, AgentPrincipal)
    try:
        batch_id = UUID(body.batch_id)
    except ValueError as e:
        raise BadRequest("batch_id must be a UUID") from e
    model = ShippedLine if body.matched else LogLine
    rows = [row for row in (_row_of_line(model, values) for values in body.logs) if row is not None]
    if len(rows) < len(body.logs):
        count = len(body.logs) - len(rows)
        log.warning("agent %s sent %d lines that cannot be stored", request.principal.id, count)
    task_logs.ship(ctx, rows, batch_id, request.principal.id)
    return EMPTY


def _row_of_line(model: type[LogLine], values: dict[str, Any]) -> dict[str, Any] | None:
    """Return the row of a line, or None if it is invalid: the batch also has lines of other tasks."""
    try:
        return read(model, values).row()
    except BadRequest:
        return None


def retain_of_experiment(ctx: Context, request: Request, body: LogRetention) -> Answer:
    experiment_id = request.id("experimentId")
    retention.set_of_experiment(ctx, user_of(request), experiment_id, body.num_days)
    return EMPTY


def retain_of_trial(ctx: Context, request: Request, body: LogRetention) -> Answer:
    retention.set_of_trial(ctx, user_of(request), request.id("trialId"), body.num_days)
    return EMPTY


def retention_left(ctx: Context, request: Request) -> Answer:
    return json_response({"remainingDays": retention.days_left(ctx, request.id("id"))})


ROUTES = (
    get(
        "/api/v1/trials/{trialId}/logs",
        trial_logs,
        summary="Logs of a trial (stream)",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_ARTIFACTS, "trial", "trialId"),
            task=TaskRule.READ,
            own=True,
        ),
    ),
    get(
        "/api/v1/trials/{trialId}/logs/fields",
        fields,
        summary="What the logs can be filtered by (stream)",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_ARTIFACTS, "trial", "trialId"),
            task=TaskRule.READ,
            own=True,
        ),
    ),
    get(
        "/api/v1/tasks/{taskId}/logs",
        follow_task_logs,
        summary="Logs of a task (stream)",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_ARTIFACTS, "task", "taskId"), task=TaskRule.READ, own=True
        ),
    ),
    get(
        "/api/v1/tasks/{taskId}/logs/fields",
        fields,
        summary="What the logs can be filtered by (stream)",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_ARTIFACTS, "task", "taskId"), task=TaskRule.READ, own=True
        ),
    ),
    post(
        "/api/v1/task/logs",
        post_logs,
        summary="Ship log lines",
        largest=REPORT_BODY,
        rule=require(
            in_body(Right.UPDATE_EXPERIMENT, "task", "logs.taskId"),
            task=TaskRule.BY_SERVICE,
            own=True,
        ),
        audit=Unaudited.REPORT,
    ),
    post(
        "/task-logs",
        post_bare_logs,
        summary="Ship log lines (a bare list)",
        largest=REPORT_BODY,
        rule=require(by_service(Right.UPDATE_EXPERIMENT), task=TaskRule.BY_SERVICE, own=True),
        audit=Unaudited.REPORT,
    ),
    post(
        "/agents/v1/logs",
        ship,
        access=Access.AGENT,
        summary="Ship a batch of log lines once",
        largest=REPORT_BODY,
        audit=Unaudited.REPORT,
    ),
    put(
        "/api/v1/experiments/{experimentId}/retain_logs",
        retain_of_experiment,
        summary="Set log retention",
        rule=require(
            in_path(Right.UPDATE_EXPERIMENT_METADATA, "experiment", "experimentId"),
            task=TaskRule.OWN_EXPERIMENT,
        ),
        audit="experiment.retain_logs.set",
    ),
    put(
        "/api/v1/trials/{trialId}/retain_logs",
        retain_of_trial,
        summary="Set log retention",
        rule=require(
            in_path(Right.UPDATE_EXPERIMENT, "trial", "trialId"), task=TaskRule.OWN_EXPERIMENT
        ),
        audit="trial.retain_logs.set",
    ),
    get(
        "/api/v1/trials/{id}/remaining_log_retention_days",
        retention_left,
        summary="Days its logs have",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "trial", "id"), task=TaskRule.READ, own=True
        ),
    ),
)
