"""Serve the measurements of experiments, as answers and as streams that continue until the experiments have ended."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from det_controlplane.api.answers import ComparedTrials
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import Answer, Batch, Request, Stream, json_response, line
from det_controlplane.api.listing import MetricGroupQuery
from det_controlplane.api.router import get
from det_controlplane.core.people.permissions import TaskRule, in_path, in_query, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.trials import metric_curves

_TRIALS, _POINTS, _MOST = 25, 1_000, 100_000
_PERIOD_S, _LONGEST_PERIOD_S = 5, 60

Message = dict[str, Any]
# Takes the measurements and a value for the messages before, None at first. Returns the next message, None if it
# would repeat them, and the new value.
News = Callable[[Message, Any], tuple[Message | None, Any]]


@dataclass(frozen=True)
class FollowQuery:
    once: bool = False
    period_seconds: int = 0


@dataclass(frozen=True)
class NamesQuery(FollowQuery):
    ids: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class MetricQuery(FollowQuery, MetricGroupQuery):
    metric_name: str = ""

    def metric(self) -> tuple[str, str]:
        """Return the group and the name of the metric."""
        group = self.metric_group()
        if not self.metric_name or not group:
            raise BadRequest("metricName and group are required")
        return group, self.metric_name


@dataclass(frozen=True)
class SnapshotQuery(MetricQuery):
    batches_processed: int = 0
    batches_margin: int = 0


@dataclass(frozen=True)
class WindowQuery:
    start_batches: int = 0
    end_batches: int = 0
    max_datapoints: int = 0

    def window(self, names: list[str], group: str) -> metric_curves.Window:
        return metric_curves.Window(
            names=names,
            group=group,
            first=self.start_batches,
            last=self.end_batches,
            most=_limit_or_default(self.max_datapoints, _POINTS),
        )


@dataclass(frozen=True)
class SampleQuery(MetricQuery, WindowQuery):
    max_trials: int = 0


@dataclass(frozen=True)
class CompareQuery(WindowQuery, MetricGroupQuery):
    trial_ids: list[int] = field(default_factory=list)
    metric_ids: list[str] = field(default_factory=list)
    metric_names: list[str] = field(default_factory=list)


def names(ctx: Context, request: Request, query: NamesQuery) -> Answer:
    ids = query.ids
    if not ids:
        raise BadRequest("ids is required: the ids of experiments")
    return _follow(ctx, query, ids, lambda: metric_curves.names(ctx, ids), _new_names)


def batches(ctx: Context, request: Request, query: MetricQuery) -> Answer:
    group, name = query.metric()
    experiment_id = request.id("experimentId")

    def read() -> Message:
        return {"batches": metric_curves.batches(ctx, experiment_id, group, name)}

    return _follow(ctx, query, [experiment_id], read, _new_steps)


def snapshot(ctx: Context, request: Request, query: SnapshotQuery) -> Answer:
    group, name = query.metric()
    at, margin = query.batches_processed, query.batches_margin
    experiment_id = request.id("experimentId")

    def read() -> Message:
        return {"trials": metric_curves.snapshot(ctx, experiment_id, group, name, at, margin)}

    return _follow(ctx, query, [experiment_id], read, _skip_unchanged)


def compare(ctx: Context, request: Request, query: CompareQuery) -> Answer:
    """Return the curves of trials.

    Metrics named by `metricIds` (group and name), by `metricNames` in one group, or all.
    """
    if not query.trial_ids:
        raise BadRequest("trialIds is required")
    by_group: dict[str, list[str]] = {}
    for metric_id in query.metric_ids:
        group, _, name = metric_id.partition(".")
        by_group.setdefault(group, []).append(name)
    if query.metric_names or not by_group:
        by_group.setdefault(query.metric_group(), []).extend(query.metric_names)
    windows = [query.window(names, group) for group, names in by_group.items()]
    return json_response({"trials": metric_curves.compared(ctx, query.trial_ids, windows)})


def sample(ctx: Context, request: Request, query: SampleQuery) -> Answer:
    group, name = query.metric()
    most = _limit_or_default(query.max_trials, _TRIALS)
    window = query.window([name], group)
    experiment_id = request.id("experimentId")

    def read() -> Message:
        return {"trials": metric_curves.sample(ctx, experiment_id, most, window)}

    return _follow(ctx, query, [experiment_id], read, _new_points)


def history(ctx: Context, request: Request) -> Answer:
    entries = metric_curves.history(ctx, request.id("experimentId"))
    return json_response({"validationHistory": entries})


def _limit_or_default(limit: int, default: int) -> int:
    return min(limit, _MOST) if limit > 0 else default


@dataclass(frozen=True, slots=True)
class _Seen:
    revision: str
    read_at: datetime
    sent: Any


def _follow(
    ctx: Context, query: FollowQuery, ids: list[int], read: Callable[[], Message], news: News
) -> Stream:
    """Send the measurements, then news after each change of the experiments, until they have ended.

    `once` ends the stream after the first message: hosts that cannot stream answer at the end of a stream only.
    """
    period = query.period_seconds or _PERIOD_S
    pause = timedelta(seconds=min(max(period, 1), _LONGEST_PERIOD_S))
    before = metric_curves.progress(ctx, ids)
    message, baseline = news(read(), None)
    first = [message]

    def fetch(last: _Seen | None) -> Batch:
        now = ctx.now()
        if last is None:
            ended = query.once or all(state.terminal for state in before.states)
            return Batch([line(first.pop())], _Seen(before.revision, now, baseline), ended)
        progress = metric_curves.progress(ctx, ids)
        ended = all(state.terminal for state in progress.states)
        is_due = ended or now - last.read_at >= pause
        if progress.revision in ("", last.revision) or not is_due:
            return Batch([], last, ended)
        message, latest = news(read(), last.sent)
        lines = [] if message is None else [line(message)]
        return Batch(lines, _Seen(progress.revision, now, latest), ended)

    return Stream(fetch)


def _new_names(current: Message, previous: frozenset[tuple[str, str]] | None) -> tuple[Any, Any]:
    new = [m for m in current["metricNames"] if (m["group"], m["name"]) not in (previous or ())]
    latest = frozenset((m["group"], m["name"]) for m in current["metricNames"])
    if previous is not None and not new:
        return None, latest
    lists = {
        f"{group}Metrics": [m["name"] for m in new if m["group"] == group]
        for group in ("training", "validation")
    }
    return {**current, **lists, "metricNames": new}, latest


def _new_steps(current: Message, previous: frozenset[int] | None) -> tuple[Any, Any]:
    new = [step for step in current["batches"] if step not in (previous or ())]
    latest = frozenset(current["batches"])
    return ({"batches": new} if new or previous is None else None), latest


def _skip_unchanged(current: Message, previous: Message | None) -> tuple[Any, Any]:
    return (None if current == previous else current), current


def _new_points(current: Message, previous: Mapping[int, int] | None) -> tuple[Any, Any]:
    """Return the points behind the last one that was sent, and all points of a trial that is new among the best."""
    before = previous or {}
    trials = [
        {**t, "data": [p for p in t["data"] if p["batches"] > before.get(t["trialId"], -1)]}
        for t in current["trials"]
    ]
    last = {t["trialId"]: max([-1, *(p["batches"] for p in t["data"])]) for t in current["trials"]}
    promoted = [trial_id for trial_id in last if trial_id not in before]
    message = {
        "trials": [t for t in trials if t["data"] or t["trialId"] in promoted],
        "promotedTrials": promoted,
        "demotedTrials": [trial_id for trial_id in before if trial_id not in last],
    }
    is_new = previous is None or any(message.values())
    return (message if is_new else None), last


_E = "/api/v1/experiments"
_STREAMS = f"{_E}/{{experimentId}}/metrics-stream"
_VIEW = require(
    in_path(Right.VIEW_EXPERIMENT_METADATA, "experiment", "experimentId"),
    task=TaskRule.READ,
    own=True,
)
ROUTES = (
    get(
        f"{_E}/metrics-stream/metric-names",
        names,
        summary="Names of metrics (stream)",
        rule=require(
            in_query(Right.VIEW_EXPERIMENT_METADATA, "experiment", "ids"), task=TaskRule.READ
        ),
    ),
    get(
        f"{_STREAMS}/batches",
        batches,
        summary="Steps at which a metric was reported (stream)",
        rule=_VIEW,
    ),
    get(
        f"{_STREAMS}/trials-snapshot",
        snapshot,
        summary="A metric of all trials at a step (stream)",
        rule=_VIEW,
    ),
    get(
        f"{_STREAMS}/trials-sample",
        sample,
        summary="Curves of the best trials (stream)",
        rule=_VIEW,
    ),
    get(
        "/api/v1/trials/time-series",
        compare,
        response=ComparedTrials,
        summary="Curves of trials",
        rule=require(
            in_query(Right.VIEW_EXPERIMENT_METADATA, "trial", "trialIds"), task=TaskRule.READ
        ),
    ),
    get(
        f"{_E}/{{experimentId}}/validation-history",
        history,
        summary="Validations that were the best so far",
        rule=_VIEW,
    ),
)
