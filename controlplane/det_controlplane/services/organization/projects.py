"""Projects: the experiments of one undertaking, inside a workspace."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Violated
from det_controlplane.db.people import projects
from det_controlplane.db.people.projects import ProjectRow
from det_controlplane.services.context import Context
from det_controlplane.services.errors import (
    Invalid,
    Oversized,
    Taken,
    WrongState,
    require,
    require_open,
)
from det_controlplane.services.organization import workspaces
from det_controlplane.services.organization.workspaces import editable
from det_controlplane.services.principal import User

Note = dict[str, str]

_KEY = re.compile(r"[A-Za-z0-9]{1,5}")
_KEY_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_KEY_TRIES = 5
_MOST_IN_NOTES = 4 << 20  # characters


@dataclass(frozen=True, slots=True)
class ProjectChanges:
    """Hold the fields to change; None keeps a field."""

    name: str | None = None
    description: str | None = None
    key: str | None = None


def get(ctx: Context, project_id: int) -> dict[str, Any]:
    with ctx.db.autocommit() as tx:
        return _read_project(tx, project_id)


def by_key(ctx: Context, key: str) -> dict[str, Any]:
    with ctx.db.autocommit() as tx:
        return require(projects.by_key(tx, key), f"project with key '{key}'")


def listed(
    ctx: Context, workspace_id: int, page: Page, sort: Sort, filters: dict[str, Any]
) -> Iterator[str]:
    """Return the projects of one workspace; 0 stands for all."""
    all_filters = {"workspace_id": workspace_id, **filters} if workspace_id else filters
    if workspace_id:
        with ctx.db.autocommit() as tx:
            workspaces.owner(tx, workspace_id)
    return projects.listed(ctx.db, page, sort, all_filters)


def create(ctx: Context, caller: User, workspace_id: int, new: ProjectChanges) -> dict[str, Any]:
    name = _checked_name(new.name or "")
    try:
        with ctx.db.begin() as tx:
            workspaces.open_workspace(tx, workspace_id)
            key = _checked_key(new.key) if new.key else _new_key(ctx, tx, name)
            description = new.description or ""
            project_id = projects.create(tx, workspace_id, caller.id, name, key, description)
            ctx.recorder.add_objects(f"project {project_id}")
            return _read_project(tx, project_id)
    except Violated as e:
        raise _conflict(e, name, new.key or "") from e


def edit(ctx: Context, caller: User, project_id: int, changes: ProjectChanges) -> dict[str, Any]:
    values = {
        "name": None if changes.name is None else _checked_name(changes.name),
        "description": changes.description,
        "key": None if changes.key is None else _checked_key(changes.key),
    }
    try:
        with ctx.db.begin() as tx:
            editable(locked(tx, project_id), caller, "edit")
            projects.change(tx, project_id, **{c: v for c, v in values.items() if v is not None})
            return _read_project(tx, project_id)
    except Violated as e:
        raise _conflict(e, changes.name or "", changes.key or "") from e


def set_archived(ctx: Context, caller: User, project_id: int, archived: bool) -> None:
    with ctx.db.begin() as tx:
        row = editable(locked(tx, project_id), caller, "archive", archived_too=True)
        if row.workspace_archived:
            raise WrongState(f"workspace '{row.workspace_name}' is archived: unarchive it first")
        projects.change(tx, project_id, archived=archived)


def move(ctx: Context, caller: User, project_id: int, workspace_id: int) -> None:
    """Move a project with its experiments."""
    try:
        with ctx.db.begin() as tx:
            row = editable(locked(tx, project_id), caller, "move")
            workspaces.open_workspace(tx, workspace_id)
            projects.move(tx, project_id, workspace_id)
    except Violated as e:
        raise _conflict(e, row.name, "") from e


def set_notes(ctx: Context, project_id: int, notes: Sequence[Note]) -> list[Note]:
    with ctx.db.begin() as tx:
        new_notes = require(
            projects.set_notes(tx, project_id, list(notes)), f"project {project_id}"
        )
        return _within_bounds(new_notes)


def add_note(ctx: Context, project_id: int, note: Note) -> list[Note]:
    with ctx.db.begin() as tx:
        return _within_bounds(
            require(projects.add_note(tx, project_id, note), f"project {project_id}")
        )


def _within_bounds(notes: list[Note]) -> list[Note]:
    """Refuse notes that everybody who lists projects would have to wait for."""
    if sum(len(text) for note in notes for text in note.values()) > _MOST_IN_NOTES:
        raise Oversized(
            f"the notes of a project have {_MOST_IN_NOTES >> 20} MiB at most: shorten or delete some"
        )
    return notes


def locked(tx: Tx, project_id: int) -> ProjectRow:
    return require(projects.lock(tx, project_id), f"project {project_id}")


def open_project(tx: Tx, project_id: int) -> ProjectRow:
    """Return a project that takes experiments."""
    row = locked(tx, project_id)
    what = f"project '{row.name}'"
    require_open(what, archived=row.archived, deleting=row.state is not None)
    return row


def keep_open(tx: Tx, project_id: int) -> None:
    """Refuse an archived or deleted project, and lock the project against both until the commit."""
    row = require(projects.share(tx, project_id), f"project {project_id}")
    what = f"project {row.id}"
    require_open(what, archived=row.archived, deleting=row.state is not None)


def _read_project(tx: Tx, project_id: int) -> dict[str, Any]:
    return require(projects.one(tx, project_id), f"project {project_id}")


def _checked_name(name: str) -> str:
    if not name.strip():
        raise Invalid("a project's name must not be blank")
    return name.strip()


def _checked_key(key: str) -> str:
    if not _KEY.fullmatch(key.strip()):
        raise Invalid(f"project key {key!r} must have 1 to 5 letters and digits")
    return key.strip().upper()


def _new_key(ctx: Context, tx: Tx, name: str) -> str:
    """Make a key: three characters of the name, then chance."""
    start = "".join(c for c in name.upper() if c in _KEY_ALPHABET)[:3]
    for _ in range(_KEY_TRIES):
        chance = ctx.random.uuid().int
        tail = ""
        while len(start) + len(tail) < 5:
            chance, digit = divmod(chance, len(_KEY_ALPHABET))
            tail += _KEY_ALPHABET[digit]
        if not projects.key_is_used(tx, start + tail):
            return start + tail
    raise Taken(f"no free key was found for project '{name}': give one")


def _conflict(e: Violated, name: str, key: str) -> Taken:
    if e.constraint == "project_name":
        return Taken(f"project '{name}' already exists in this workspace: choose another name")
    return Taken(f"project key '{key}' is already in use: choose another, or give none")
