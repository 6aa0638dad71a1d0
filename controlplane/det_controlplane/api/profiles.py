"""Serve series of profilers. The streams end with the present points, because clients that draw curves ask again."""

import math
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.auth import user_of
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import EMPTY, REPORT_BODY, Answer, Batch, Request, Stream, line
from det_controlplane.api.inputs import parse_time
from det_controlplane.api.listing import choice
from det_controlplane.api.router import Unaudited, get, post
from det_controlplane.core.people.permissions import TaskRule, in_body, in_path, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.identity import reporters, task_rights
from det_controlplane.services.trials import profiles
from det_controlplane.services.trials.profiles import KINDS, Labels, Point, Series

_PREFIX = "PROFILER_METRIC_TYPE_"
_TYPES = ("", *(kind.upper() for kind in KINDS))
_MESSAGE = 1000  # points


def _label(name: str) -> Any:
    """Return a field of the query that may be written `labels.gpuUuid` or `labels.gpu_uuid`."""
    first, *rest = name.split("_")
    camel = first + "".join(word.capitalize() for word in rest)
    return field(default="", metadata={"name": f"labels.{camel}", "also": (f"labels.{name}",)})


@dataclass(frozen=True)
class SeriesQuery:
    name: str = _label("name")
    metric_type: str = _label("metric_type")
    agent_id: str = _label("agent_id")
    gpu_uuid: str = _label("gpu_uuid")


@dataclass(frozen=True)
class ProfilerLabels:
    trial_id: int = 0
    name: str = ""
    agent_id: str = ""
    gpu_uuid: str = ""
    metric_type: str = ""

    def labels(self) -> Labels:
        kind = self.metric_type.removeprefix(_PREFIX).lower() or KINDS[0]
        if kind not in KINDS:
            names = ", ".join(_PREFIX + k.upper() for k in KINDS)
            raise BadRequest(f"labels.metricType must be one of {names}")
        return Labels(kind, self.name, self.agent_id, self.gpu_uuid)


@dataclass(frozen=True)
class ProfilerBatch:
    labels: ProfilerLabels = ProfilerLabels()
    values: list[float] = field(default_factory=list)
    batches: list[int] = field(default_factory=list, metadata={"most": None})
    timestamps: list[str] = field(default_factory=list)

    def points(self) -> list[Point]:
        if not len(self.values) == len(self.batches) == len(self.timestamps):
            raise BadRequest("values, batches and timestamps of a series must be of one length")
        wrong = next((value for value in self.values if not math.isfinite(value)), None)
        if wrong is not None:
            raise BadRequest(f"values must be finite numbers, not {wrong!r}")
        rows = zip(self.values, self.batches, self.timestamps, strict=True)
        return [
            Point(value, batches, parse_time(time, "timestamps")) for value, batches, time in rows
        ]


@dataclass(frozen=True)
class ProfilerReport:
    batches: list[ProfilerBatch] = field(default_factory=list)


def available(ctx: Context, request: Request) -> Answer:
    trial_id = request.id("trialId")
    entries = [_label_json(trial_id, labels) for labels in profiles.available(ctx, trial_id)]
    return _stream([{"labels": entries}])


def series(ctx: Context, request: Request, query: SeriesQuery) -> Answer:
    trial_id = request.id("trialId")
    if not query.name:
        raise BadRequest("labels.name is required: 'profiler/available_series' lists the names")
    kind = choice("labels.metricType", query.metric_type, _PREFIX, _TYPES).lower()
    labels = Labels(kind, query.name, query.agent_id, query.gpu_uuid)
    curves = profiles.series(ctx, trial_id, labels)
    return _stream([part for one in curves for part in _parts(trial_id, one)])


def _parts(trial_id: int, curve: Series) -> list[dict[str, Any]]:
    labels, parts = _label_json(trial_id, curve.labels), []
    for start in range(0, len(curve.values), _MESSAGE):
        end = start + _MESSAGE
        batch = {
            "values": curve.values[start:end], "batches": curve.batches[start:end],
            "timestamps": curve.timestamps[start:end], "labels": labels,
        }  # fmt: skip
        parts.append({"batch": batch})
    return parts


def _label_json(trial_id: int, labels: Labels) -> dict[str, Any]:
    return {
        "trialId": trial_id, "name": labels.name, "agentId": labels.agent_id, "gpuUuid": labels.gpu_uuid,
        "metricType": f"{_PREFIX}{labels.kind.upper()}",
    }  # fmt: skip


def _stream(messages: list[dict[str, Any]]) -> Stream:
    return Stream(lambda cursor: Batch([line(message) for message in messages], cursor, True))


def report(ctx: Context, request: Request, body: ProfilerReport) -> Answer:
    """Store the profiler samples of older harnesses, which send them by this route."""
    batches = [
        (batch.labels.trial_id, batch.labels.labels(), batch.points()) for batch in body.batches
    ]
    for trial_id in {trial_id for trial_id, _, _ in batches}:
        task_rights.require_trial(ctx, user_of(request), trial_id)
        reporters.require_trial(ctx, user_of(request), trial_id)
    profiles.add(ctx, batches)
    return EMPTY


_T = "/api/v1/trials"
ROUTES = (
    post(
        f"{_T}/profiler/metrics",
        report,
        summary="Report series of profilers (older harnesses)",
        largest=REPORT_BODY,
        rule=require(
            in_body(Right.UPDATE_EXPERIMENT, "trial", "batches.labels.trialId"),
            task=TaskRule.BY_SERVICE,
            own=True,
        ),
        audit=Unaudited.REPORT,
    ),
    get(
        f"{_T}/{{trialId}}/profiler/available_series",
        available,
        summary="Names of series that profilers measured (stream)",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "trial", "trialId"),
            task=TaskRule.READ,
            own=True,
        ),
    ),
    get(
        f"{_T}/{{trialId}}/profiler/metrics",
        series,
        summary="A series of profilers (stream)",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "trial", "trialId"),
            task=TaskRule.READ,
            own=True,
        ),
    ),
)
