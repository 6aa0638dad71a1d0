"""Serve the pages that a Prometheus server scrapes."""

from det_controlplane.api.http import Answer, Request, Response, json_response
from det_controlplane.api.router import get
from det_controlplane.core.people.permissions import TaskRule, in_cluster, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.maintenance import gauges


def state_metrics(ctx: Context, request: Request) -> Answer:
    return _text(gauges.exposition(ctx))


def process_metrics(ctx: Context, request: Request) -> Answer:
    return _text(gauges.process_exposition())


def _text(exposition: str) -> Response:
    return Response(exposition.encode(), media_type="text/plain; version=0.0.4; charset=utf-8")


def targets(ctx: Context, request: Request) -> Answer:
    return json_response(gauges.targets(ctx))


_TEXT = ("text/plain",)
_VIEW = require(in_cluster(Right.VIEW_CLUSTER_USAGE), task=TaskRule.READ)
ROUTES = (
    get("/debug/prom/metrics", process_metrics, summary="What the answering process has used, for Prometheus",
        produces=_TEXT, rule=_VIEW),
    get("/prom/det-state-metrics", state_metrics, summary="Gauges of work, machines and money, for Prometheus",
        produces=_TEXT, rule=_VIEW),
    get("/prom/det-http-sd-config", targets, summary="What Prometheus scrapes on the agents", rule=_VIEW),
)  # fmt: skip
