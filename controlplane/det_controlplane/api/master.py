"""Routes for operators: the cluster message, the configuration, the control plane's log, usage."""

from calendar import monthrange
from datetime import date, datetime

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body, parse_time
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import (
    EMPTY,
    Answer,
    Batch,
    Request,
    Response,
    Stream,
    json_response,
    line,
)
from det_controlplane.api.router import delete, get, patch, post, put
from det_controlplane.core.people.permissions import TaskRule, in_cluster, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.cluster import status, usage
from det_controlplane.services.context import Context
from det_controlplane.services.logs import master_log, retention
from det_controlplane.services.maintenance import counts


def get_message(ctx: Context, request: Request) -> Answer:
    return json_response({"clusterMessage": status.planned_message(ctx, user_of(request))})


def set_message(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    start, end = body.time("startTime"), body.time("endTime")
    duration = body.text("duration")
    status.set_message(ctx, user_of(request), body.text("message"), start, end, duration)
    return EMPTY


def clear_message(ctx: Context, request: Request) -> Answer:
    status.clear_message(ctx, user_of(request))
    return EMPTY


def get_config(ctx: Context, request: Request) -> Answer:
    return json_response({"config": status.configuration(ctx, user_of(request))})


def set_config(ctx: Context, request: Request) -> Answer:
    """Change the log's level and color, which alone can change while the cluster runs."""
    body = Body(request.json())
    asked = body.body("config").body("log")
    mask = body.body("fieldMask").items("paths") if body.has("fieldMask") else []
    unknown = [p for p in mask if p not in ("log", "log.level", "log.color")]
    if unknown:
        raise BadRequest(
            f"{', '.join(map(str, unknown))} cannot be changed: only log.level, log.color"
        )
    level = asked.text("level").removeprefix("LOG_LEVEL_") if asked.raw("level") else None
    color = asked.flag("color") if asked.raw("color") is not None else None
    if mask and "log" not in mask:
        level = level if "log.level" in mask else None
        color = bool(color) if "log.color" in mask else None
    status.set_log(ctx, user_of(request), level, color)
    return EMPTY


def logs(ctx: Context, request: Request) -> Answer:
    """Stream the cluster's own log. With `follow`, the stream continues with new lines."""
    offset, limit = request.integer("offset"), request.integer("limit")
    follow = bool(request.flag("follow"))
    start = master_log.first(ctx, user_of(request), offset, limit)

    def fetch(cursor: tuple[int, int]) -> Batch:
        after, left = cursor
        size = min(master_log.BATCH, left) if limit > 0 and not follow else master_log.BATCH
        rows = master_log.page(ctx, after, size)
        left -= len(rows)
        last = rows[-1].id if rows else after
        done = not follow and (len(rows) < master_log.BATCH or (limit > 0 and left <= 0))
        return Batch([line({"logEntry": r.entry}) for r in rows], (last, left), done)

    return Stream(fetch, (start, limit), topic="master-logs")


def clean_logs(ctx: Context, request: Request) -> Answer:
    removed = retention.clean_up(ctx, user_of(request))
    return json_response({"removedCount": str(removed)})


def verify_counts(ctx: Context, request: Request) -> Answer:
    return _differences(counts.differences(ctx, user_of(request)))


def repair_counts(ctx: Context, request: Request) -> Answer:
    return _differences(counts.repair(ctx, user_of(request)))


def _differences(differences: list[counts.Difference]) -> Response:
    shown = [
        {
            "experimentId": d.experiment_id,
            "keptTrials": d.kept_trials,
            "trials": d.trials,
            "keptCheckpoints": d.kept_checkpoints,
            "checkpoints": d.checkpoints,
            "keptCheckpointSize": None if d.kept_size is None else str(d.kept_size),
            "checkpointSize": str(d.size),
        }
        for d in differences
    ]
    return json_response({"differences": shown})


def _times(request: Request) -> tuple[datetime, datetime]:
    def time(name: str, older: str) -> datetime:
        value = request.text(name, older)
        if not value:
            raise BadRequest(f"{name} is required")
        return parse_time(value, name)

    return time("timestampAfter", "timestamp_after"), time("timestampBefore", "timestamp_before")


def _dates(request: Request) -> tuple[date, date, str]:
    period = request.text("period").rpartition("_")[2].upper() or usage.DAILY
    period = usage.DAILY if period in ("", "UNSPECIFIED") else period
    if period not in (usage.DAILY, usage.MONTHLY):
        raise BadRequest(
            "period must be RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY or ..._MONTHLY"
        )
    first = _days_of(request, "startDate", "start_date", period)[0]
    last = _days_of(request, "endDate", "end_date", period)[1]
    return first, last, period


def _days_of(request: Request, name: str, older: str, period: str) -> tuple[date, date]:
    """Return the first and the last day of a month such as 2026-11, or a day twice."""
    value = request.text(name, older)
    is_month = len(value) == len("2026-11")
    if is_month and period != usage.MONTHLY:
        raise BadRequest(
            f"{name} {value!r} is a month, and the report is by day: write a day such as"
            " 2026-11-20, or ask for months (--monthly)"
        )
    try:
        first = date.fromisoformat(f"{value}-01" if is_month else value)
    except ValueError as e:
        raise BadRequest(f"{name} must be a date such as 2026-11-20, not {value!r}") from e
    days = monthrange(first.year, first.month)[1] if is_month else first.day
    return first, first.replace(day=days)


def raw_usage(ctx: Context, request: Request) -> Answer:
    return json_response({"resourceEntries": usage.raw(ctx, *_times(request))})


def aggregated_usage(ctx: Context, request: Request) -> Answer:
    return json_response({"resourceEntries": usage.aggregated(ctx, *_dates(request))})


def raw_csv(ctx: Context, request: Request) -> Answer:
    return _csv(usage.raw_csv(ctx, *_times(request)))


def allocations_csv(ctx: Context, request: Request) -> Answer:
    return _csv(usage.allocations_csv(ctx, *_times(request)))


def aggregated_csv(ctx: Context, request: Request) -> Answer:
    return _csv(usage.aggregated_csv(ctx, *_dates(request)))


def _csv(text: str) -> Response:
    return Response(text.encode(), media_type="text/csv")


_MESSAGE = "/api/v1/master/cluster_message"
_USAGE = "/resources/allocation"
_CSV = ("text/csv",)
_CHANGE = require(in_cluster(Right.UPDATE_MASTER_CONFIG), task=TaskRule.NEVER)
_VIEW_USAGE = require(in_cluster(Right.VIEW_CLUSTER_USAGE), task=TaskRule.READ)
ROUTES = (
    get(
        _MESSAGE,
        get_message,
        summary="The cluster message",
        rule=require(in_cluster(Right.VIEW_MASTER_CONFIG), task=TaskRule.READ),
    ),
    put(
        _MESSAGE,
        set_message,
        summary="Set the cluster message (administrators)",
        rule=_CHANGE,
        audit="master.cluster_message.set",
    ),
    delete(
        _MESSAGE,
        clear_message,
        summary="Clear the cluster message",
        rule=_CHANGE,
        audit="master.cluster_message.delete",
    ),
    get(
        "/api/v1/master/config",
        get_config,
        summary="The cluster's configuration, redacted",
        rule=require(in_cluster(Right.VIEW_MASTER_CONFIG), task=TaskRule.READ),
    ),
    patch(
        "/api/v1/master/config",
        set_config,
        summary="Change the log level",
        rule=_CHANGE,
        audit="master.config.edit",
    ),
    get(
        "/api/v1/master/logs",
        logs,
        summary="The control plane's log (stream)",
        rule=require(in_cluster(Right.VIEW_MASTER_LOGS), task=TaskRule.READ),
    ),
    post(
        "/api/v1/cleanup_logs",
        clean_logs,
        summary="Delete logs past their retention now",
        rule=_CHANGE,
        audit="cleanup_log.create",
    ),
    get(
        "/api/v1/master/counts",
        verify_counts,
        summary="Wrong numbers of trials and checkpoints",
        rule=require(in_cluster(Right.UPDATE_MASTER_CONFIG), task=TaskRule.READ),
    ),
    post(
        "/api/v1/master/counts/repair",
        repair_counts,
        summary="Repair wrong numbers",
        rule=_CHANGE,
        audit="master.counts.repair",
    ),
    get(
        f"/api/v1{_USAGE}/raw",
        raw_usage,
        summary="Allocations between two times",
        from_replica=True,
        rule=_VIEW_USAGE,
    ),
    get(
        f"/api/v1{_USAGE}/aggregated",
        aggregated_usage,
        summary="Slot-seconds by day or month",
        from_replica=True,
        rule=_VIEW_USAGE,
    ),
    get(
        f"{_USAGE}/raw",
        raw_csv,
        produces=_CSV,
        summary="Allocations between two times, as CSV",
        from_replica=True,
        rule=_VIEW_USAGE,
    ),
    get(
        f"{_USAGE}/allocations-csv",
        allocations_csv,
        produces=_CSV,
        summary="Allocations with slot-hours, as CSV",
        from_replica=True,
        rule=_VIEW_USAGE,
    ),
    get(
        f"{_USAGE}/aggregated",
        aggregated_csv,
        produces=_CSV,
        summary="Slot-seconds, as CSV",
        from_replica=True,
        rule=_VIEW_USAGE,
    ),
)
