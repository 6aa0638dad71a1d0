"""Serve the measurements of experiments. The streams have one message: clients that draw curves ask again."""

from typing import Any

from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import Answer, Batch, Request, Stream, json_response, line
from det_controlplane.api.listing import metric_group_of
from det_controlplane.api.router import get
from det_controlplane.services.context import Context
from det_controlplane.services.trials import metric_curves

_TRIALS, _POINTS, _MOST = 25, 1_000, 100_000


def names(ctx: Context, request: Request) -> Answer:
    ids = request.integers("ids")
    if not ids:
        raise BadRequest("ids is required: those of experiments")
    return _once(metric_curves.names(ctx, ids))


def batches(ctx: Context, request: Request) -> Answer:
    group, name = _metric(request)
    found = metric_curves.batches(ctx, request.id("experimentId"), group, name)
    return _once({"batches": found})


def snapshot(ctx: Context, request: Request) -> Answer:
    group, name = _metric(request)
    at = request.integer("batchesProcessed", "batches_processed")
    margin = request.integer("batchesMargin", "batches_margin")
    found = metric_curves.snapshot(ctx, request.id("experimentId"), group, name, at, margin)
    return _once({"trials": found})


def compare(ctx: Context, request: Request) -> Answer:
    """Stream the curves of trials.

    Metrics named by `metricIds` (group and name), by `metricNames` in one group, or all.
    """
    trial_ids = request.integers("trialIds", "trial_ids")
    if not trial_ids:
        raise BadRequest("trialIds is required")
    wanted: dict[str, list[str]] = {}
    for metric_id in request.texts("metricIds", "metric_ids"):
        group, _, name = metric_id.partition(".")
        wanted.setdefault(group, []).append(name)
    names = request.texts("metricNames", "metric_names")
    if names or not wanted:
        wanted.setdefault(metric_group_of(request), []).extend(names)
    windows = [_window(request, names, group) for group, names in wanted.items()]
    return json_response({"trials": metric_curves.compared(ctx, trial_ids, windows)})


def sample(ctx: Context, request: Request) -> Answer:
    group, name = _metric(request)
    most = _bounded(request.integer("maxTrials", "max_trials"), _TRIALS)
    window = _window(request, [name], group)
    trials = metric_curves.sample(ctx, request.id("experimentId"), most, window)
    promoted = [trial["trialId"] for trial in trials]
    return _once({"trials": trials, "promotedTrials": promoted, "demotedTrials": []})


def history(ctx: Context, request: Request) -> Answer:
    found = metric_curves.history(ctx, request.id("experimentId"))
    return json_response({"validationHistory": found})


def _metric(request: Request) -> tuple[str, str]:
    name, group = request.text("metricName", "metric_name"), metric_group_of(request)
    if not name or not group:
        raise BadRequest("metricName and group are required")
    return group, name


def _window(request: Request, names: list[str], group: str) -> metric_curves.Window:
    return metric_curves.Window(
        names=names,
        group=group,
        first=request.integer("startBatches", "start_batches"),
        last=request.integer("endBatches", "end_batches"),
        most=_bounded(request.integer("maxDatapoints", "max_datapoints"), _POINTS),
    )


def _bounded(asked: int, default: int) -> int:
    return min(asked, _MOST) if asked > 0 else default


def _once(message: dict[str, Any]) -> Stream:
    return Stream(lambda cursor: Batch([line(message)], cursor, True))


_E = "/api/v1/experiments"
_STREAMS = f"{_E}/{{experimentId}}/metrics-stream"
ROUTES = (
    get(f"{_E}/metrics-stream/metric-names", names, summary="Names of metrics (stream)"),
    get(f"{_STREAMS}/batches", batches, summary="Steps at which a metric was reported (stream)"),
    get(
        f"{_STREAMS}/trials-snapshot", snapshot, summary="A metric of all trials at a step (stream)"
    ),
    get(f"{_STREAMS}/trials-sample", sample, summary="Curves of the best trials (stream)"),
    get("/api/v1/trials/time-series", compare, summary="Curves of trials"),
    get(
        f"{_E}/{{experimentId}}/validation-history",
        history,
        summary="Validations that were the best so far",
    ),
)
