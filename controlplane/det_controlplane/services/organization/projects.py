"""Projects: the experiments of one undertaking, inside a workspace (facts §9.2)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import pages
from det_controlplane.db.engine import Tx, Violated, as_json
from det_controlplane.db.pages import Listing
from det_controlplane.db.views import time
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, Taken, WrongState
from det_controlplane.services.identity.principal import User
from det_controlplane.services.identity.rights import require_owner

_KEY = re.compile(r"[A-Za-z0-9]{1,5}")
_KEY_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_KEY_TRIES = 5

PROJECT = f"""json_build_object('id', p.id, 'name', p.name, 'description', p.description, 'key', p.key, 'notes', p.notes,
    'workspaceId', p.workspace_id, 'workspaceName', w.name, 'userId', p.user_id, 'username', u.username,
    'archived', p.archived OR w.archived, 'immutable', p.immutable, 'errorMessage', p.error_message,
    'state', 'WORKSPACE_STATE_' || coalesce(p.state::text, 'UNSPECIFIED'),
    'numExperiments', (SELECT count(*) FROM experiments e WHERE e.project_id = p.id),
    'numActiveExperiments', (SELECT count(*) FROM experiments e WHERE e.project_id = p.id AND e.ended_at IS NULL AND e.state <> 'PAUSED'),
    'numRuns', (SELECT count(*) FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE e.project_id = p.id),
    'lastExperimentStartedAt', (SELECT {time("max(e.started_at)")} FROM experiments e WHERE e.project_id = p.id))"""
PROJECT_FROM = (
    "projects p JOIN workspaces w ON w.id = p.workspace_id JOIN users u ON u.id = p.user_id"
)
_ONE = text(f"SELECT {PROJECT} FROM {PROJECT_FROM} WHERE p.id = :id")
_BY_KEY = text(f"SELECT {PROJECT} FROM {PROJECT_FROM} WHERE p.key = upper(:key)")
_ORDER = {
    "SORT_BY_ID": "p.id", "SORT_BY_NAME": "lower(p.name)", "SORT_BY_DESCRIPTION": "p.description",
    "SORT_BY_CREATION_TIME": "p.created_at",
    "SORT_BY_LAST_EXPERIMENT_START_TIME": "(SELECT max(e.started_at) FROM experiments e WHERE e.project_id = p.id)",
}  # fmt: skip
_FILTERS = {
    "workspace_id": "p.workspace_id = :workspace_id",
    "name": "p.name ILIKE '%' || :name || '%'",
    "archived": "(p.archived OR w.archived) = :archived",
    "users": "u.username = ANY(cast(:users AS text[]))",
    "user_ids": "p.user_id = ANY(cast(:user_ids AS integer[]))",
}
_WORKSPACE = text(
    "SELECT id, name, archived, state::text AS state FROM workspaces WHERE id = :id FOR SHARE"
)
_LOCK = text("""
    SELECT p.id, p.name, p.user_id, p.immutable, p.archived, p.state::text AS state, p.workspace_id, w.archived AS parent_archived,
           w.name AS workspace_name
    FROM projects p JOIN workspaces w ON w.id = p.workspace_id WHERE p.id = :id FOR UPDATE OF p
""")
_INSERT = text("""
    INSERT INTO projects (workspace_id, name, key, description, user_id) VALUES (:workspace_id, :name, :key, :description, :user_id)
    RETURNING id
""")
_KEY_USED = text("SELECT 1 FROM projects WHERE key = :key")
_SET = {
    c: text(f"UPDATE projects SET {c} = :value WHERE id = :id")
    for c in ("name", "description", "key", "archived")
}
_MOVE = text("UPDATE projects SET workspace_id = :workspace_id WHERE id = :id")
_MOVE_JOBS = text("""
    UPDATE jobs SET workspace_id = :workspace_id WHERE id IN (SELECT job_id FROM experiments WHERE project_id = :id)
""")
_NOTES = text("UPDATE projects SET notes = cast(:notes AS jsonb) WHERE id = :id RETURNING notes")
_NOTE = text(
    "UPDATE projects SET notes = notes || cast(:notes AS jsonb) WHERE id = :id RETURNING notes"
)
_EXPERIMENTS = text("""
    SELECT count(*) AS total, count(*) FILTER (WHERE ended_at IS NULL) AS live FROM experiments WHERE project_id = :id
""")
_DELETING = text("UPDATE projects SET state = 'DELETING', error_message = '' WHERE id = :id")


@dataclass(frozen=True, slots=True)
class ProjectChanges:
    """What is None stays as it is."""

    name: str | None = None
    description: str | None = None
    key: str | None = None


def get(ctx: Context, project_id: int) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        return _one(tx, project_id)


def by_key(ctx: Context, key: str) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        found: dict[str, Any] | None = tx.execute(_BY_KEY, {"key": key}).scalar()
    if found is None:
        raise Missing(f"project with key '{key}' not found")
    return found


def listed(ctx: Context, workspace_id: int, page: Page, sort: Sort, filters: dict[str, Any]) -> str:
    """Of one workspace; 0 stands for all."""
    given = {"workspace_id": workspace_id, **filters} if workspace_id else filters
    where = [_FILTERS[name] for name in given]
    listing = Listing("projects", PROJECT, PROJECT_FROM, where, sort.sql(_ORDER, "SORT_BY_ID"))
    with ctx.db.begin() as tx:
        if workspace_id and tx.execute(_WORKSPACE, {"id": workspace_id}).first() is None:
            raise Missing(f"workspace {workspace_id} not found")
        return pages.fetch(tx, listing, page, given)


def create(ctx: Context, caller: User, workspace_id: int, new: ProjectChanges) -> dict[str, Any]:
    name = _checked_name(new.name or "")
    try:
        with ctx.db.begin() as tx:
            _open_workspace(tx, workspace_id)
            key = _checked_key(new.key) if new.key else _new_key(ctx, tx, name)
            values = {
                "workspace_id": workspace_id, "name": name, "key": key,
                "description": new.description or "", "user_id": caller.id,
            }  # fmt: skip
            return _one(tx, int(tx.execute(_INSERT, values).scalar_one()))
    except Violated as e:
        raise _taken(e, name, new.key or "") from e


def edit(ctx: Context, caller: User, project_id: int, changes: ProjectChanges) -> dict[str, Any]:
    values = {
        "name": None if changes.name is None else _checked_name(changes.name),
        "description": changes.description,
        "key": None if changes.key is None else _checked_key(changes.key),
    }
    try:
        with ctx.db.begin() as tx:
            _editable(tx, caller, project_id, "edit")
            for column, value in values.items():
                if value is not None:
                    tx.execute(_SET[column], {"id": project_id, "value": value})
            return _one(tx, project_id)
    except Violated as e:
        raise _taken(e, changes.name or "", changes.key or "") from e


def set_archived(ctx: Context, caller: User, project_id: int, archived: bool) -> None:
    with ctx.db.begin() as tx:
        row = _editable(tx, caller, project_id, "archive", archived_too=True)
        if row.parent_archived:
            raise WrongState(f"workspace '{row.workspace_name}' is archived: unarchive it first")
        tx.execute(_SET["archived"], {"id": project_id, "value": archived})


def move(ctx: Context, caller: User, project_id: int, workspace_id: int) -> None:
    """Its experiments go with it."""
    try:
        with ctx.db.begin() as tx:
            row = _editable(tx, caller, project_id, "move")
            _open_workspace(tx, workspace_id)
            tx.execute(_MOVE, {"id": project_id, "workspace_id": workspace_id})
            tx.execute(_MOVE_JOBS, {"id": project_id, "workspace_id": workspace_id})
    except Violated as e:
        raise _taken(e, row.name, "") from e


def set_notes(
    ctx: Context, project_id: int, notes: Sequence[dict[str, str]], *, append: bool
) -> list[dict[str, str]]:
    with ctx.db.begin() as tx:
        params = {"id": project_id, "notes": as_json(list(notes))}
        stored: list[dict[str, str]] | None = tx.execute(
            _NOTE if append else _NOTES, params
        ).scalar()
    if stored is None:
        raise Missing(f"project {project_id} not found")
    return stored


def begin_deletion(tx: Tx, caller: User, project_id: int) -> bool:
    """Whether experiments must go first."""
    row = _editable(tx, caller, project_id, "delete", archived_too=True)
    contents = tx.execute(_EXPERIMENTS, {"id": project_id}).first()
    assert contents is not None
    if contents.live:
        raise WrongState(
            f"project '{row.name}' has {contents.live} experiments that have not ended: kill them first"
        )
    tx.execute(_DELETING, {"id": project_id})
    return bool(contents.total)


def open_project(tx: Tx, project_id: int) -> Any:
    """A project that takes experiments."""
    row = tx.execute(_LOCK, {"id": project_id}).first()
    if row is None:
        raise Missing(f"project {project_id} not found")
    if row.archived or row.parent_archived:
        raise WrongState(f"project '{row.name}' is archived: unarchive it, or choose another")
    if row.state is not None:
        raise WrongState(f"project '{row.name}' is being deleted: choose another")
    return row


def _one(tx: Tx, project_id: int) -> dict[str, Any]:
    found: dict[str, Any] | None = tx.execute(_ONE, {"id": project_id}).scalar()
    if found is None:
        raise Missing(f"project {project_id} not found")
    return found


def _editable(
    tx: Tx, caller: User, project_id: int, verb: str, *, archived_too: bool = False
) -> Any:
    row = tx.execute(_LOCK, {"id": project_id}).first()
    if row is None:
        raise Missing(f"project {project_id} not found")
    require_owner(caller, row.user_id, f"{verb} project '{row.name}'")
    if row.immutable:
        raise WrongState(f"project '{row.name}' is built in: nobody may {verb} it")
    if row.state == "DELETING":
        raise WrongState(f"project '{row.name}' is being deleted")
    if not archived_too and (row.archived or row.parent_archived):
        raise WrongState(f"project '{row.name}' is archived: unarchive it first")
    return row


def _open_workspace(tx: Tx, workspace_id: int) -> Any:
    row = tx.execute(_WORKSPACE, {"id": workspace_id}).first()
    if row is None:
        raise Missing(f"workspace {workspace_id} not found")
    if row.archived:
        raise WrongState(f"workspace '{row.name}' is archived: unarchive it first")
    if row.state is not None:
        raise WrongState(f"workspace '{row.name}' is being deleted")
    return row


def _checked_name(name: str) -> str:
    if not name.strip():
        raise Invalid("a project's name must not be blank")
    return name.strip()


def _checked_key(key: str) -> str:
    if not _KEY.fullmatch(key.strip()):
        raise Invalid(f"project key {key!r} must have 1 to 5 letters and digits")
    return key.strip().upper()


def _new_key(ctx: Context, tx: Tx, name: str) -> str:
    """Three characters of the name, then chance."""
    start = "".join(c for c in name.upper() if c in _KEY_ALPHABET)[:3]
    for _ in range(_KEY_TRIES):
        chance = ctx.new_uuid().int
        tail = ""
        while len(start) + len(tail) < 5:
            chance, digit = divmod(chance, len(_KEY_ALPHABET))
            tail += _KEY_ALPHABET[digit]
        if tx.execute(_KEY_USED, {"key": start + tail}).scalar() is None:
            return start + tail
    raise Taken(f"no free key was found for project '{name}': give one")


def _taken(e: Violated, name: str, key: str) -> Taken:
    if e.constraint == "project_name":
        return Taken(f"project '{name}' already exists in this workspace: choose another name")
    return Taken(f"project key '{key}' is already in use: choose another, or give none")
