"""Serve the tables of experiments and runs: searched and sorted by any column, and actions on many runs."""

from dataclasses import dataclass, field

from det_controlplane.api.auth import user_of
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import Answer, Request, json_parts, json_response
from det_controlplane.api.listing import PageQuery, choice
from det_controlplane.api.router import Handler, Unaudited, get, post
from det_controlplane.core.filters import Filter, parse_filter, parse_sort
from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.core.people.permissions import (
    Need,
    TaskRule,
    in_body,
    in_listing,
    in_path,
    require,
)
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import tables
from det_controlplane.services.experiments.tables import TableScope
from det_controlplane.services.trials import run_actions
from det_controlplane.services.trials.run_actions import Action, Selection

_EVERY_PROJECT = (0, -1)


@dataclass(frozen=True)
class RunSearch(PageQuery):
    project_id: int = 0
    filter: str = ""
    sort: str = ""


@dataclass(frozen=True)
class ExperimentSearch(RunSearch):
    brief: bool = False


@dataclass(frozen=True)
class RunSelection:
    project_id: int = 0
    run_ids: list[int] = field(default_factory=list)
    filter: str = ""


@dataclass(frozen=True)
class RunMove:
    source_project_id: int = 0
    destination_project_id: int = 0
    run_ids: list[int] = field(default_factory=list)
    filter: str = ""
    skip_multitrial: bool = False


@dataclass(frozen=True)
class ColumnQuery:
    table_type: str = ""


def search_runs(ctx: Context, request: Request, body: RunSearch) -> Answer:
    where, sort = parse_filter(body.filter), parse_sort(body.sort)
    scope = _scope(request, body.project_id)
    return json_parts(tables.runs(ctx, scope, where, sort, body.page()))


def search_experiments(ctx: Context, request: Request, body: ExperimentSearch) -> Answer:
    where, sort = parse_filter(body.filter), parse_sort(body.sort)
    search = tables.brief_experiments if body.brief else tables.experiments
    return json_parts(search(ctx, _scope(request, body.project_id), where, sort, body.page()))


def _scope(request: Request, project_id: int) -> TableScope:
    return TableScope(None if project_id in _EVERY_PROJECT else project_id, request.within)


def columns(ctx: Context, request: Request, query: ColumnQuery) -> Answer:
    table = choice("tableType", query.table_type, "TABLE_TYPE_", ("", "EXPERIMENT", "RUN"))
    return json_response(
        {"columns": tables.columns(ctx, _scope(request, request.id("id")), table == "RUN")}
    )


def metric_ranges(ctx: Context, request: Request) -> Answer:
    return json_response({"ranges": tables.ranges(ctx, _scope(request, request.id("id")))})


def metadata_values(ctx: Context, request: Request) -> Answer:
    values = tables.metadata_values(
        ctx, _scope(request, request.id("projectId")), request.param("key")
    )
    return json_response({"values": values})


def _bulk(action: Action) -> Handler:
    def handler(ctx: Context, request: Request, body: RunSelection) -> Answer:
        return _apply_action(ctx, request, body, "projectId", action)

    return handler


def move(ctx: Context, request: Request, body: RunMove) -> Answer:
    action = run_actions.moving_to(body.destination_project_id, body.skip_multitrial)
    selection = RunSelection(body.source_project_id, body.run_ids, body.filter)
    return _apply_action(ctx, request, selection, "sourceProjectId", action)


def _apply_action(
    ctx: Context, request: Request, body: RunSelection, project: str, action: Action
) -> Answer:
    ids, where = body.run_ids, parse_filter(body.filter)
    if not ids and not body.filter:
        raise BadRequest("name runs by runIds, or choose them by a filter")
    if not ids and not _is_narrow(body.project_id, where):
        raise BadRequest(
            f"name {project} or runIds, or filter all projects (-1): this would reach the whole cluster"
        )
    selection = Selection(ids, where, _scope(request, body.project_id))
    return json_response({"results": run_actions.apply(ctx, user_of(request), selection, action)})


def _is_narrow(project_id: int, chosen: Filter) -> bool:
    return project_id not in _EVERY_PROJECT or (project_id == -1 and chosen.has_conditions)


def _needs_of_selection(right: Right, project: str = "projectId") -> tuple[Need, ...]:
    """Need a right for all runs that a body selects, by their ids or by a filter in a project."""
    return (
        in_body(right, "trial", "runIds"),
        in_body(right, "project", project),
        in_listing(right),
    )


_P, _R = "/api/v1/projects", "/api/v1/runs"
_MANY = require(*_needs_of_selection(Right.UPDATE_EXPERIMENT), task=TaskRule.NEVER)
ROUTES = (
    post(
        "/api/v1/experiments-search",
        search_experiments,
        summary="Search experiments by any column",
        from_replica=True,
        rule=require(in_listing(Right.VIEW_EXPERIMENT_METADATA), task=TaskRule.READ),
        audit=Unaudited.NO_CHANGE,
    ),
    post(
        _R,
        search_runs,
        summary="Search runs by any column",
        from_replica=True,
        rule=require(in_listing(Right.VIEW_EXPERIMENT_METADATA), task=TaskRule.READ),
        audit=Unaudited.NO_CHANGE,
    ),
    post(
        f"{_R}/kill",
        _bulk(run_actions.kill),
        summary="Kill many runs",
        rule=_MANY,
        audit="run.kill",
    ),
    post(
        f"{_R}/pause",
        _bulk(run_actions.commanding(Command.PAUSE)),
        summary="Pause many runs",
        rule=_MANY,
        audit="run.pause",
    ),
    post(
        f"{_R}/resume",
        _bulk(run_actions.commanding(Command.ACTIVATE)),
        summary="Resume many runs",
        rule=_MANY,
        audit="run.resume",
    ),
    post(
        f"{_R}/archive",
        _bulk(run_actions.archiving(True)),
        summary="Archive many runs",
        rule=_MANY,
        audit="run.archive",
    ),
    post(
        f"{_R}/unarchive",
        _bulk(run_actions.archiving(False)),
        summary="Unarchive many runs",
        rule=_MANY,
        audit="run.unarchive",
    ),
    post(
        f"{_R}/delete",
        _bulk(run_actions.delete),
        summary="Delete many runs",
        rule=require(*_needs_of_selection(Right.DELETE_EXPERIMENT), task=TaskRule.NEVER),
        audit="run.delete",
    ),
    post(
        f"{_R}/move",
        move,
        summary="Move many runs to another project",
        rule=require(
            *_needs_of_selection(Right.UPDATE_EXPERIMENT, "sourceProjectId"),
            in_body(Right.CREATE_EXPERIMENT, "project", "destinationProjectId"),
            task=TaskRule.NEVER,
        ),
        audit="run.move",
    ),
    get(
        f"{_P}/{{id}}/columns",
        columns,
        summary="Columns that tables of a project can show",
        from_replica=True,
        rule=require(
            in_path(Right.VIEW_PROJECT, "project", "id"),
            in_listing(Right.VIEW_PROJECT),
            task=TaskRule.READ,
        ),
    ),
    get(
        f"{_P}/{{id}}/experiments/metric-ranges",
        metric_ranges,
        summary="Between which numbers metrics of a project lie",
        from_replica=True,
        rule=require(
            in_path(Right.VIEW_PROJECT, "project", "id"),
            in_listing(Right.VIEW_PROJECT),
            task=TaskRule.READ,
        ),
    ),
    get(
        f"{_P}/{{projectId}}/metadata/{{key}}",
        metadata_values,
        summary="What runs of a project have under a key of their metadata",
        from_replica=True,
        rule=require(
            in_path(Right.VIEW_PROJECT, "project", "projectId"),
            in_listing(Right.VIEW_PROJECT),
            task=TaskRule.READ,
        ),
    ),
)
