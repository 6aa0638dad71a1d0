"""Projects, and actions on many of their experiments at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.answers import OneProject, Projects
from det_controlplane.api.auth import setting, user_of
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import EMPTY, REPORT_BODY, Answer, Request, json_parts, json_response
from det_controlplane.api.listing import OwnerQuery, filters_of, known_states
from det_controlplane.api.router import Handler, delete, get, patch, post, put
from det_controlplane.core.filters import WORK_STATES
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
from det_controlplane.services.experiments import bulk
from det_controlplane.services.experiments.bulk import Action, Selection
from det_controlplane.services.maintenance import deletion
from det_controlplane.services.organization import projects
from det_controlplane.services.organization.projects import ProjectChanges


@dataclass(frozen=True)
class ProjectBody:
    name: str | None = None
    description: str | None = None
    key: str | None = None

    def changes(self) -> ProjectChanges:
        return ProjectChanges(name=self.name, description=self.description, key=self.key or None)


@dataclass(frozen=True)
class ProjectMove:
    destination_workspace_id: int = 0


@dataclass(frozen=True)
class Note:
    name: str = ""
    contents: str = ""

    def values(self) -> dict[str, str]:
        return {"name": self.name, "contents": self.contents}


@dataclass(frozen=True)
class Notes:
    notes: list[Note] = field(default_factory=list)


@dataclass(frozen=True)
class NewNote(Note):
    """A note; older clients send its fields without the object around them."""

    note: Note | None = None


@dataclass(frozen=True)
class ExperimentFilters:
    """The filters by which a body selects experiments."""

    name: str = ""
    description: str = ""
    labels: list[str] = field(default_factory=list)
    user_ids: list[int] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)
    excluded_experiment_ids: list[int] = field(default_factory=list)
    project_id: int = 0
    archived: bool | None = None

    def values(self) -> dict[str, Any]:
        return filters_of(
            name=self.name,
            description=self.description,
            labels=self.labels,
            user_ids=self.user_ids,
            states=known_states(self.states, WORK_STATES),
            id_not_in=self.excluded_experiment_ids,
            project_id=self.project_id or None,
            archived=self.archived,
        )


@dataclass(frozen=True)
class ExperimentSelection:
    experiment_ids: list[int] = field(default_factory=list)
    filters: ExperimentFilters | None = None


@dataclass(frozen=True)
class ExperimentMove(ExperimentSelection):
    destination_project_id: int = 0


@dataclass(frozen=True)
class Retention(ExperimentSelection):
    num_days: int = 0


def list_projects(ctx: Context, request: Request, query: OwnerQuery) -> Answer:
    filters = query.filters() | request.held()
    return json_parts(projects.listed(ctx, request.id("id"), query.page(), query.sort(), filters))


def get_project(ctx: Context, request: Request) -> Answer:
    return json_response({"project": projects.get(ctx, request.id("id"))})


def by_key(ctx: Context, request: Request) -> Answer:
    return json_response({"project": projects.by_key(ctx, request.param("key"))})


def create(ctx: Context, request: Request, body: ProjectBody) -> Answer:
    workspace_id = request.id("workspaceId")
    project = projects.create(ctx, user_of(request), workspace_id, body.changes())
    return json_response({"project": project})


def edit(ctx: Context, request: Request, body: ProjectBody) -> Answer:
    project = projects.edit(ctx, user_of(request), request.id("id"), body.changes())
    return json_response({"project": project})


def remove(ctx: Context, request: Request) -> Answer:
    is_deleted = deletion.delete_project(ctx, user_of(request), request.id("id"))
    return json_response({"completed": is_deleted})


def move(ctx: Context, request: Request, body: ProjectMove) -> Answer:
    projects.move(ctx, user_of(request), request.id("id"), body.destination_workspace_id)
    return EMPTY


def set_notes(ctx: Context, request: Request, body: Notes) -> Answer:
    notes = [note.values() for note in body.notes]
    return json_response({"notes": projects.set_notes(ctx, request.id("id"), notes)})


def add_note(ctx: Context, request: Request, body: NewNote) -> Answer:
    note = body if body.note is None else body.note
    return json_response({"notes": projects.add_note(ctx, request.id("id"), note.values())})


def _bulk(action: Action) -> Handler:
    def handler(ctx: Context, request: Request, body: ExperimentSelection) -> Answer:
        return _apply_action(ctx, request, body, action)

    return handler


def move_experiments(ctx: Context, request: Request, body: ExperimentMove) -> Answer:
    return _apply_action(ctx, request, body, bulk.moving_to(body.destination_project_id))


def retain_logs(ctx: Context, request: Request, body: Retention) -> Answer:
    return _apply_action(ctx, request, body, bulk.retaining(body.num_days))


def _apply_action(
    ctx: Context, request: Request, body: ExperimentSelection, action: Action
) -> Answer:
    if not body.experiment_ids and body.filters is None:
        raise BadRequest("name experiments by experimentIds, or choose them by filters")
    filters = ExperimentFilters() if body.filters is None else body.filters
    selection = Selection(body.experiment_ids, filters.values() | request.held())
    every = request.param("projectId") == _EVERY_PROJECT
    project_id = None if every else request.id("projectId") or None  # 0 names none
    if project_id is None and not selection.ids:
        _refuse_whole_cluster(selection.filters, every=every)
    results = bulk.apply(ctx, user_of(request), project_id, selection, action)
    return json_response({"results": results})


def _refuse_whole_cluster(filters: Mapping[str, Any], *, every: bool) -> None:
    narrow = {key for key, value in filters.items() if value} - {
        "archived",
        "id_not_in",
        "in_workspaces",
    }
    if "project_id" not in narrow and not (every and narrow):
        raise BadRequest(
            "name a project or experimentIds, or filter all projects (-1): this would reach the whole cluster"
        )


def _needs_of_selection(right: Right) -> tuple[Need, ...]:
    """Need a right for all experiments that a request selects: its project, ids and filters, all within a listing."""
    return (
        in_path(right, "project", "projectId"),
        in_body(right, "project", "filters.projectId"),
        in_body(right, "experiment", "experimentIds"),
        in_listing(right),
    )


_EVERY_PROJECT = "-1"
_P = "/api/v1/projects"
_B = f"{_P}/{{projectId}}/experiments"
_UPDATE = require(in_path(Right.UPDATE_PROJECT, "project", "id"), task=TaskRule.AS_OWNER)
_MANY = require(*_needs_of_selection(Right.UPDATE_EXPERIMENT), task=TaskRule.NEVER)
_EDIT_MANY = require(*_needs_of_selection(Right.UPDATE_EXPERIMENT_METADATA), task=TaskRule.NEVER)
ROUTES = (
    get(
        "/api/v1/workspaces/{id}/projects",
        list_projects,
        response=Projects,
        summary="Projects of a workspace",
        from_replica=True,
        rule=require(
            in_path(Right.VIEW_PROJECT, "workspace", "id"),
            in_listing(Right.VIEW_PROJECT),
            task=TaskRule.READ,
        ),
    ),
    post(
        "/api/v1/workspaces/{workspaceId}/projects",
        create,
        response=OneProject,
        summary="Create a project",
        rule=require(
            in_path(Right.CREATE_PROJECT, "workspace", "workspaceId"), task=TaskRule.AS_OWNER
        ),
        audit="workspace.projects",
    ),
    get(
        f"{_P}/key/{{key}}",
        by_key,
        summary="One project by its key",
        rule=require(in_path(Right.VIEW_PROJECT, "project-key", "key"), task=TaskRule.READ),
    ),
    get(
        f"{_P}/{{id}}",
        get_project,
        response=OneProject,
        summary="One project",
        rule=require(in_path(Right.VIEW_PROJECT, "project", "id"), task=TaskRule.READ),
    ),
    patch(f"{_P}/{{id}}", edit, summary="Edit a project", rule=_UPDATE, audit="project.edit"),
    delete(
        f"{_P}/{{id}}",
        remove,
        summary="Delete a project with its experiments",
        rule=require(in_path(Right.DELETE_PROJECT, "project", "id"), task=TaskRule.AS_OWNER),
        audit="project.delete",
    ),
    post(
        f"{_P}/{{id}}/archive",
        setting(projects.set_archived, True),
        summary="Archive a project",
        rule=_UPDATE,
        audit="project.archive",
    ),
    post(
        f"{_P}/{{id}}/unarchive",
        setting(projects.set_archived, False),
        summary="Unarchive a project",
        rule=_UPDATE,
        audit="project.unarchive",
    ),
    post(
        f"{_P}/{{id}}/move",
        move,
        summary="Move a project to another workspace",
        rule=require(
            in_path(Right.UPDATE_PROJECT, "project", "id"),
            in_body(Right.CREATE_PROJECT, "workspace", "destinationWorkspaceId"),
            task=TaskRule.AS_OWNER,
        ),
        audit="project.move",
    ),
    put(
        f"{_P}/{{id}}/notes",
        set_notes,
        summary="Replace the notes of a project",
        largest=REPORT_BODY,
        rule=_UPDATE,
        audit="project.notes.set",
    ),
    post(
        f"{_P}/{{id}}/notes",
        add_note,
        summary="Add a note to a project",
        largest=REPORT_BODY,
        rule=_UPDATE,
        audit="project.notes",
    ),
    post(
        f"{_B}/activate",
        _bulk(bulk.commanding(Command.ACTIVATE)),
        summary="Activate many",
        rule=_MANY,
        audit="project.experiments.activate",
    ),
    post(
        f"{_B}/pause",
        _bulk(bulk.commanding(Command.PAUSE)),
        summary="Pause many",
        rule=_MANY,
        audit="project.experiments.pause",
    ),
    post(
        f"{_B}/cancel",
        _bulk(bulk.commanding(Command.CANCEL)),
        summary="Cancel many",
        rule=_MANY,
        audit="project.experiments.cancel",
    ),
    post(
        f"{_B}/kill",
        _bulk(bulk.commanding(Command.KILL)),
        summary="Kill many",
        rule=_MANY,
        audit="project.experiments.kill",
    ),
    post(
        f"{_B}/archive",
        _bulk(bulk.archiving(True)),
        summary="Archive many",
        rule=_EDIT_MANY,
        audit="project.experiments.archive",
    ),
    post(
        f"{_B}/unarchive",
        _bulk(bulk.archiving(False)),
        summary="Unarchive many",
        rule=_EDIT_MANY,
        audit="project.experiments.unarchive",
    ),
    delete(
        f"{_B}/delete",
        _bulk(bulk.deleting),
        summary="Delete many",
        rule=require(*_needs_of_selection(Right.DELETE_EXPERIMENT), task=TaskRule.NEVER),
        audit="project.experiments.delete.delete",
    ),
    post(
        f"{_B}/move",
        move_experiments,
        summary="Move many",
        rule=require(
            *_needs_of_selection(Right.UPDATE_EXPERIMENT),
            in_body(Right.CREATE_EXPERIMENT, "project", "destinationProjectId"),
            task=TaskRule.NEVER,
        ),
        audit="project.experiments.move",
    ),
    put(
        f"{_B}/retain_logs",
        retain_logs,
        summary="Set the log retention of many",
        rule=_EDIT_MANY,
        audit="project.experiments.retain_logs.set",
    ),
)
