"""Reports of metrics of several trials, as streams."""

from dataclasses import dataclass

from det_controlplane.api.http import Answer, Batch, Request, Stream, line
from det_controlplane.api.router import get
from det_controlplane.core.people.permissions import TaskRule, in_query, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.trials import metric_streams


@dataclass(frozen=True)
class MetricsQuery:
    trial_ids: list[int]
    after: int = 0  # the id of a report: the stream continues behind it


@dataclass(frozen=True)
class GroupQuery(MetricsQuery):
    group: str = ""


def training_metrics(ctx: Context, request: Request, query: MetricsQuery) -> Answer:
    return _metrics(ctx, query, "training")


def validation_metrics(ctx: Context, request: Request, query: MetricsQuery) -> Answer:
    return _metrics(ctx, query, "validation")


def group_metrics(ctx: Context, request: Request, query: GroupQuery) -> Answer:
    return _metrics(ctx, query, query.group)


def _metrics(ctx: Context, query: MetricsQuery, group: str) -> Answer:
    metric_streams.check_trials(ctx, query.trial_ids)

    def fetch(after: metric_streams.Position) -> Batch:
        page = metric_streams.page(ctx, query.trial_ids, group, after)
        lines = [line({"metrics": page.reports})] if page.reports else []
        return Batch(lines, page.last, page.is_last)

    return Stream(fetch, metric_streams.start(ctx, query.trial_ids, query.after))


_M = "/api/v1/trials/metrics"
_VIEW = require(in_query(Right.VIEW_EXPERIMENT_METADATA, "trial", "trialIds"), task=TaskRule.READ)
ROUTES = (
    get(
        f"{_M}/training_metrics", training_metrics, summary="Training metrics (stream)", rule=_VIEW
    ),
    get(f"{_M}/validation_metrics", validation_metrics, summary="Validations (stream)", rule=_VIEW),
    get(f"{_M}/trial_metrics", group_metrics, summary="Metrics of a group (stream)", rule=_VIEW),
)
