"""The model registry: named models (facts §9.3). Their versions are in `model_versions`."""

import re
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

MODEL = f"""json_build_object('id', m.id, 'name', m.name, 'description', m.description, 'metadata', m.metadata,
    'labels', to_json(m.labels), 'notes', m.notes, 'archived', m.archived, 'workspaceId', m.workspace_id,
    'userId', m.user_id, 'username', mu.username, 'creationTime', {time("m.created_at")},
    'lastUpdatedTime', {time("m.updated_at")},
    'numVersions', (SELECT count(*) FROM model_versions x WHERE x.model_id = m.id))"""
MODEL_FROM = (
    "models m JOIN users mu ON mu.id = m.user_id JOIN workspaces mw ON mw.id = m.workspace_id"
)
_ONE = text(f"SELECT {MODEL} FROM {MODEL_FROM} WHERE m.id = :id")
_ORDER = {
    "SORT_BY_ID": "m.id", "SORT_BY_NAME": "m.name", "SORT_BY_DESCRIPTION": "m.description",
    "SORT_BY_CREATION_TIME": "m.created_at", "SORT_BY_LAST_UPDATED_TIME": "m.updated_at",
    "SORT_BY_NUM_VERSIONS": "(SELECT count(*) FROM model_versions x WHERE x.model_id = m.id)",
    "SORT_BY_WORKSPACE": "mw.name",
}  # fmt: skip
_FILTERS = {
    "name": "m.name ILIKE '%' || :name || '%'",
    "description": "m.description ILIKE '%' || :description || '%'",
    "labels": "m.labels @> cast(:labels AS text[])",
    "archived": "m.archived = :archived",
    "users": "mu.username = ANY(cast(:users AS text[]))",
    "user_ids": "m.user_id = ANY(cast(:user_ids AS integer[]))",
    "id": "m.id = :id",
    "workspace_ids": "m.workspace_id = ANY(cast(:workspace_ids AS integer[]))",
    "workspace_names": "mw.name = ANY(cast(:workspace_names AS text[]))",
}
_LOCK = """SELECT id, name, user_id, workspace_id, archived FROM models WHERE {} FOR UPDATE"""
_LOCK_BY_ID, _LOCK_BY_NAME = text(_LOCK.format("id = :id")), text(_LOCK.format("name = :name"))
_INSERT = text("""
    INSERT INTO models (name, description, metadata, labels, notes, user_id, workspace_id, created_at, updated_at)
    VALUES (:name, :description, cast(:metadata AS jsonb), cast(:labels AS text[]), :notes, :user_id, :workspace_id, :now, :now)
    RETURNING id
""")
_SET = {
    "name": text("UPDATE models SET name = :value WHERE id = :id"),
    "description": text("UPDATE models SET description = :value WHERE id = :id"),
    "notes": text("UPDATE models SET notes = :value WHERE id = :id"),
    "metadata": text("UPDATE models SET metadata = cast(:value AS jsonb) WHERE id = :id"),
    "labels": text("UPDATE models SET labels = cast(:value AS text[]) WHERE id = :id"),
    "workspace_id": text("UPDATE models SET workspace_id = :value WHERE id = :id"),
    "archived": text("UPDATE models SET archived = :value WHERE id = :id"),
}
_TOUCH = text("UPDATE models SET updated_at = :now WHERE id = :id")
_DELETE = text("DELETE FROM models WHERE id = :id")
_LABELS = text("""
    SELECT label FROM models m, unnest(m.labels) AS label
    WHERE cast(:workspace_id AS integer) = 0 OR m.workspace_id = :workspace_id GROUP BY label ORDER BY count(*) DESC, label
""")
_WORKSPACE = text(
    "SELECT id, archived FROM workspaces WHERE id = :id OR (:id = 0 AND lower(name) = lower(:name))"
)


@dataclass(frozen=True, slots=True)
class ModelChanges:
    """What is None stays as it is."""

    name: str | None = None
    description: str | None = None
    metadata: dict[str, Any] | None = None
    labels: list[str] | None = None
    notes: str | None = None
    workspace_id: int | None = None
    workspace_name: str | None = None
    archived: bool | None = None


def get(ctx: Context, name_or_id: str) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        return shown(tx, locked(tx, name_or_id).id)


def listed(ctx: Context, page: Page, sort: Sort, filters: dict[str, Any]) -> str:
    where = [_FILTERS[name] for name in filters]
    listing = Listing("models", MODEL, MODEL_FROM, where, sort.sql(_ORDER, "SORT_BY_ID"))
    with ctx.db.begin() as tx:
        return pages.fetch(tx, listing, page, filters)


def labels(ctx: Context, workspace_id: int) -> list[str]:
    """The most used first."""
    with ctx.db.begin() as tx:
        return [r[0] for r in tx.execute(_LABELS, {"workspace_id": workspace_id}).all()]


def create(ctx: Context, caller: User, new: ModelChanges) -> dict[str, Any]:
    name = _checked_name(new.name or "")
    try:
        with ctx.db.begin() as tx:
            values = {
                "name": name, "description": new.description or "", "notes": new.notes or "",
                "metadata": as_json(new.metadata or {}), "labels": new.labels or [],
                "user_id": caller.id, "workspace_id": _workspace(tx, new) or 1, "now": ctx.now(),
            }  # fmt: skip
            return shown(tx, int(tx.execute(_INSERT, values).scalar_one()))
    except Violated as e:
        raise _told(e, name) from e


def edit(ctx: Context, caller: User, name_or_id: str, changes: ModelChanges) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": None if changes.name is None else _checked_name(changes.name),
        "description": changes.description, "notes": changes.notes, "labels": changes.labels,
        "metadata": None if changes.metadata is None else as_json(changes.metadata),
        "archived": changes.archived,
    }  # fmt: skip
    try:
        with ctx.db.begin() as tx:
            model = locked(tx, name_or_id)
            if changes.archived is not None:
                require_owner(caller, model.user_id, f"archive model '{model.name}'")
            elif model.archived:
                raise WrongState(f"model '{model.name}' is archived: unarchive it first")
            values["workspace_id"] = _workspace(tx, changes)
            for column, value in values.items():
                if value is not None:
                    tx.execute(_SET[column], {"id": model.id, "value": value})
            touch(ctx, tx, model.id)
            return shown(tx, model.id)
    except Violated as e:
        raise _told(e, changes.name or "") from e


def delete(ctx: Context, caller: User, name_or_id: str) -> None:
    """Its versions go with it; their checkpoints stay."""
    with ctx.db.begin() as tx:
        model = locked(tx, name_or_id)
        require_owner(caller, model.user_id, f"delete model '{model.name}'")
        tx.execute(_DELETE, {"id": model.id})


def locked(tx: Tx, name_or_id: str) -> Any:
    """Digits are an id, anything else is a name."""
    by_id = name_or_id.isdigit() and len(name_or_id) <= 9
    row = (
        tx.execute(_LOCK_BY_ID, {"id": int(name_or_id)}).first()
        if by_id
        else tx.execute(_LOCK_BY_NAME, {"name": name_or_id}).first()
    )
    if row is None:
        raise Missing(f"model '{name_or_id}' not found: see 'det model list'")
    return row


def shown(tx: Tx, model_id: int) -> dict[str, Any]:
    found: dict[str, Any] = tx.execute(_ONE, {"id": model_id}).scalar_one()
    return found


def touch(ctx: Context, tx: Tx, model_id: int) -> None:
    tx.execute(_TOUCH, {"id": model_id, "now": ctx.now()})


def _workspace(tx: Tx, changes: ModelChanges) -> int | None:
    wanted, name = changes.workspace_id or 0, changes.workspace_name or ""
    if not wanted and not name:
        return None
    row = tx.execute(_WORKSPACE, {"id": wanted, "name": name}).first()
    if row is None:
        raise Missing(f"workspace {wanted or repr(name)} not found")
    if row.archived:
        raise WrongState(f"workspace {row.id} is archived: unarchive it first")
    return int(row.id)


def _checked_name(name: str) -> str:
    wrong = (
        "be blank" if not name.strip()
        else "contain / or \\" if re.search(r"[/\\]", name)
        else "contain two blanks in a row" if re.search(r"\s\s", name)
        else "be only digits: those are ids" if name.strip().isdigit()
        else ""
    )  # fmt: skip
    if wrong:
        raise Invalid(f"model name {name!r} must not {wrong}")
    return name.strip()


def _told(e: Violated, name: str) -> Missing | Taken:
    if e.constraint == "models_name_key":
        return Taken(f"model '{name}' already exists: choose another name")
    return Missing("the workspace does not exist")
