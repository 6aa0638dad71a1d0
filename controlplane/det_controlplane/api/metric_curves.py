"""What experiments measured, over their trials. The streams have one message: clients that draw curves ask again."""

from typing import Any

from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import Answer, Batch, Request, Stream, json_response, line
from det_controlplane.api.router import get
from det_controlplane.services.context import Context
from det_controlplane.services.trials import metric_curves


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


def history(ctx: Context, request: Request) -> Answer:
    found = metric_curves.history(ctx, request.id("experimentId"))
    return json_response({"validationHistory": found})


def _metric(request: Request) -> tuple[str, str]:
    """Return group and name; older clients name the group by a type."""
    name = request.text("metricName", "metric_name")
    kind = request.text("metricType", "metric_type").removeprefix("METRIC_TYPE_").lower()
    group = request.text("group") or kind.replace("unspecified", "")
    if not name or not group:
        raise BadRequest("metricName and group are required")
    return group, name


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
    get(
        f"{_E}/{{experimentId}}/validation-history",
        history,
        summary="Validations that were the best so far",
    ),
)
