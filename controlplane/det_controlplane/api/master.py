"""Routes for operators: the cluster message, the configuration, the control plane's log, usage."""

from det_controlplane.api.auth import user_of
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import (
    EMPTY,
    Answer,
    Batch,
    Request,
    Response,
    Stream,
    json_object,
    json_response,
    line,
)
from det_controlplane.api.master_inputs import (
    ClusterMessage,
    ConfigChange,
    DaysQuery,
    MasterLogQuery,
    TimesQuery,
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


def set_message(ctx: Context, request: Request, body: ClusterMessage) -> Answer:
    status.set_message(
        ctx, user_of(request), body.message, body.start_time, body.end_time, body.duration
    )
    return EMPTY


def clear_message(ctx: Context, request: Request) -> Answer:
    status.clear_message(ctx, user_of(request))
    return EMPTY


def get_config(ctx: Context, request: Request) -> Answer:
    return json_response({"config": status.configuration(ctx, user_of(request))})


def set_config(ctx: Context, request: Request, body: ConfigChange) -> Answer:
    """Change the log's level and color, which alone can change while the cluster runs."""
    mask = body.field_mask.paths
    unknown = [p for p in mask if p not in ("log", "log.level", "log.color")]
    if unknown:
        raise BadRequest(
            f"{', '.join(map(str, unknown))} cannot be changed: only log.level, log.color"
        )
    settings = body.config.log
    level = settings.level.removeprefix("LOG_LEVEL_") if settings.level is not None else None
    color = settings.color
    if mask and "log" not in mask:
        level = level if "log.level" in mask else None
        color = bool(color) if "log.color" in mask else None
    status.set_log(ctx, user_of(request), level, color)
    return EMPTY


def logs(ctx: Context, request: Request, query: MasterLogQuery) -> Answer:
    """Stream the cluster's own log. With `follow`, the stream continues with new lines."""
    limit, follow = query.limit, query.follow
    start = master_log.first(ctx, user_of(request), query.offset, limit)

    def fetch(cursor: tuple[int, int]) -> Batch:
        after, remaining = cursor
        size = min(master_log.BATCH, remaining) if limit > 0 and not follow else master_log.BATCH
        rows = master_log.page(ctx, after, size)
        remaining -= len(rows)
        last = rows[-1].id if rows else after
        done = not follow and (len(rows) < master_log.BATCH or (limit > 0 and remaining <= 0))
        return Batch([line({"logEntry": r.entry}) for r in rows], (last, remaining), done)

    return Stream(fetch, (start, limit), topic="master-logs")


def clean_logs(ctx: Context, request: Request) -> Answer:
    removed = retention.clean_up(ctx, user_of(request))
    return json_response({"removedCount": str(removed)})


def verify_counts(ctx: Context, request: Request) -> Answer:
    return _differences(counts.differences(ctx, user_of(request)))


def repair_counts(ctx: Context, request: Request) -> Answer:
    return _differences(counts.repair(ctx, user_of(request)))


def _differences(differences: list[counts.Difference]) -> Response:
    entries = [
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
    return json_response({"differences": entries})


def raw_usage(ctx: Context, request: Request, query: TimesQuery) -> Answer:
    return json_object(resourceEntries=usage.raw(ctx, *query.times()))


def aggregated_usage(ctx: Context, request: Request, query: DaysQuery) -> Answer:
    return json_object(resourceEntries=usage.aggregated(ctx, *query.days()))


def raw_csv(ctx: Context, request: Request, query: TimesQuery) -> Answer:
    return _csv(usage.raw_csv(ctx, *query.times()))


def allocations_csv(ctx: Context, request: Request, query: TimesQuery) -> Answer:
    return _csv(usage.allocations_csv(ctx, *query.times()))


def aggregated_csv(ctx: Context, request: Request, query: DaysQuery) -> Answer:
    return _csv(usage.aggregated_csv(ctx, *query.days()))


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
