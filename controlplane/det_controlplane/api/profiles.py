"""Serve series of profilers. The streams end with the present points, because clients that draw curves ask again."""

import math
from typing import Any

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body, parse_time
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import EMPTY, REPORT_BODY, Answer, Batch, Request, Stream, line
from det_controlplane.api.listing import choice_of
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


def available(ctx: Context, request: Request) -> Answer:
    trial_id = request.id("trialId")
    found = [_shown(trial_id, labels) for labels in profiles.available(ctx, trial_id)]
    return _stream([{"labels": found}])


def series(ctx: Context, request: Request) -> Answer:
    trial_id = request.id("trialId")
    name = request.text("labels.name")
    if not name:
        raise BadRequest("labels.name is required: 'profiler/available_series' lists the names")
    kind = choice_of(request, _PREFIX, _TYPES, "labels.metricType", "labels.metric_type").lower()
    agent_id, gpu_uuid = (
        request.text(f"labels.{camel}", f"labels.{snake}")
        for camel, snake in (("agentId", "agent_id"), ("gpuUuid", "gpu_uuid"))
    )
    found = profiles.series(ctx, trial_id, Labels(kind, name, agent_id, gpu_uuid))
    return _stream([part for one in found for part in _parts(trial_id, one)])


def _parts(trial_id: int, found: Series) -> list[dict[str, Any]]:
    labels, parts = _shown(trial_id, found.labels), []
    for start in range(0, len(found.values), _MESSAGE):
        end = start + _MESSAGE
        batch = {
            "values": found.values[start:end], "batches": found.batches[start:end],
            "timestamps": found.timestamps[start:end], "labels": labels,
        }  # fmt: skip
        parts.append({"batch": batch})
    return parts


def _shown(trial_id: int, labels: Labels) -> dict[str, Any]:
    return {
        "trialId": trial_id, "name": labels.name, "agentId": labels.agent_id, "gpuUuid": labels.gpu_uuid,
        "metricType": f"{_PREFIX}{labels.kind.upper()}",
    }  # fmt: skip


def _stream(messages: list[dict[str, Any]]) -> Stream:
    return Stream(lambda cursor: Batch([line(message) for message in messages], cursor, True))


def report(ctx: Context, request: Request) -> Answer:
    """Store the profiler samples of older harnesses, which send them by this route."""
    batches = [_batch(body) for body in Body(request.json()).bodies("batches")]
    for trial_id in {trial_id for trial_id, _, _ in batches}:
        task_rights.require_trial(ctx, user_of(request), trial_id)
        reporters.require_trial(ctx, user_of(request), trial_id)
    profiles.add(ctx, batches)
    return EMPTY


def _batch(body: Body) -> tuple[int, Labels, list[Point]]:
    labels = body.body("labels")
    kind = labels.text("metricType").removeprefix(_PREFIX).lower() or KINDS[0]
    if kind not in KINDS:
        known = ", ".join(_PREFIX + known.upper() for known in KINDS)
        raise BadRequest(f"labels.metricType must be one of {known}")
    columns = [body.items(name) for name in ("values", "batches", "timestamps")]
    if len({len(column) for column in columns}) != 1:
        raise BadRequest("values, batches and timestamps of a series must be of one length")
    points = [
        Point(
            _number(value),
            Body({"batches": at}).integer("batches"),
            parse_time(str(when), "timestamps"),
        )
        for value, at, when in zip(*columns, strict=True)
    ]
    name = Labels(kind, labels.text("name"), labels.text("agentId"), labels.text("gpuUuid"))
    return labels.integer("trialId"), name, points


def _number(value: Any) -> float:
    number = Body({"values": value}).number("values")
    if number is None or not math.isfinite(number):
        raise BadRequest(f"values must be finite numbers, not {value!r}")
    return number


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
