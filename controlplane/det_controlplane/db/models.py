"""The model registry: named models and their versions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, text, update

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import pages
from det_controlplane.db.engine import Tx
from det_controlplane.db.pages import Listing
from det_controlplane.db.schema import model_versions, models, workspaces
from det_controlplane.db.views import CHECKPOINT, CHECKPOINT_FROM, time

_COUNT = "(SELECT count(*) FROM model_versions x WHERE x.model_id = m.id)"
_MODEL = f"""json_build_object('id', m.id, 'name', m.name, 'description', m.description, 'metadata', m.metadata,
    'labels', to_json(m.labels), 'notes', m.notes, 'archived', m.archived, 'workspaceId', m.workspace_id,
    'userId', m.user_id, 'username', mu.username, 'creationTime', {time("m.created_at")},
    'lastUpdatedTime', {time("m.updated_at")}, 'numVersions', {_COUNT})"""
_FROM = "models m JOIN users mu ON mu.id = m.user_id JOIN workspaces mw ON mw.id = m.workspace_id"
_SHOWN = text(f"SELECT {_MODEL} FROM {_FROM} WHERE m.id = :id")
_ORDER = {
    "SORT_BY_ID": "m.id", "SORT_BY_NAME": "m.name", "SORT_BY_DESCRIPTION": "m.description",
    "SORT_BY_CREATION_TIME": "m.created_at", "SORT_BY_LAST_UPDATED_TIME": "m.updated_at",
    "SORT_BY_NUM_VERSIONS": _COUNT, "SORT_BY_WORKSPACE": "mw.name",
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

_VERSION = f"""json_build_object('id', v.id, 'version', v.version, 'name', v.name, 'comment', v.comment, 'notes', v.notes,
    'metadata', v.metadata, 'labels', to_json(v.labels), 'userId', v.user_id, 'username', vu.username,
    'creationTime', {time("v.created_at")}, 'lastUpdatedTime', {time("v.updated_at")},
    'model', (SELECT {_MODEL} FROM {_FROM} WHERE m.id = v.model_id),
    'checkpoint', (SELECT {CHECKPOINT} FROM {CHECKPOINT_FROM} WHERE c.uuid = v.checkpoint_uuid))"""
_VERSION_FROM = "model_versions v JOIN users vu ON vu.id = v.user_id"
_SHOWN_VERSION = text(
    f"SELECT {_VERSION} FROM {_VERSION_FROM} WHERE v.model_id = :model_id AND v.version = :version"
)
_VERSION_ORDER = {
    "SORT_BY_VERSION": "v.version",
    "SORT_BY_CREATION_TIME": "v.created_at",
    "SORT_BY_ID": "v.id",
}


@dataclass(frozen=True, slots=True)
class Model:
    id: int
    name: str
    user_id: int
    archived: bool


@dataclass(frozen=True, slots=True)
class Version:
    id: int
    user_id: int


@dataclass(frozen=True, slots=True)
class Workspace:
    id: int
    archived: bool


def lock(tx: Tx, name_or_id: str) -> Model | None:
    """Digits are an id, anything else is a name."""
    is_id = name_or_id.isdigit() and len(name_or_id) <= 9
    which = models.c.id == int(name_or_id) if is_id else models.c.name == name_or_id
    columns = (models.c.id, models.c.name, models.c.user_id, models.c.archived)
    row = tx.execute(select(*columns).where(which).with_for_update()).first()
    return None if row is None else Model(*row)


def shown(tx: Tx, model_id: int) -> dict[str, Any]:
    found: dict[str, Any] = tx.execute(_SHOWN, {"id": model_id}).scalar_one()
    return found


def listed(tx: Tx, page: Page, sort: Sort, filters: dict[str, Any]) -> str:
    where = [_FILTERS[name] for name in filters]
    listing = Listing("models", _MODEL, _FROM, where, sort.sql(_ORDER, "SORT_BY_ID"))
    return pages.fetch(tx, listing, page, filters)


def labels(tx: Tx, workspace_id: int) -> list[str]:
    """Return the labels of a workspace (0: of all), the most used first."""
    label = func.unnest(models.c.labels).label("label")
    each = select(label)
    if workspace_id:
        each = each.where(models.c.workspace_id == workspace_id)
    used = each.subquery().c.label
    return list(
        tx.execute(select(used).group_by(used).order_by(func.count().desc(), used)).scalars()
    )


def create(tx: Tx, values: dict[str, Any], now: datetime) -> int:
    new = insert(models).values(**values, created_at=now, updated_at=now).returning(models.c.id)
    return int(tx.execute(new).scalar_one())


def change(tx: Tx, model_id: int, values: dict[str, Any], now: datetime) -> None:
    tx.execute(update(models).where(models.c.id == model_id).values(**values, updated_at=now))


def remove(tx: Tx, model_id: int) -> None:
    tx.execute(delete(models).where(models.c.id == model_id))


def workspace(tx: Tx, workspace_id: int, name: str) -> Workspace | None:
    """Find a workspace by its id, or by its name where the id is 0."""
    by_name = func.lower(workspaces.c.name) == name.lower()
    which = workspaces.c.id == workspace_id if workspace_id else by_name
    row = tx.execute(select(workspaces.c.id, workspaces.c.archived).where(which)).first()
    return None if row is None else Workspace(*row)


def lock_version(tx: Tx, model_id: int, version: int) -> Version | None:
    v = model_versions.c
    which = (v.model_id == model_id) & (v.version == version)
    row = tx.execute(select(v.id, v.user_id).where(which).with_for_update()).first()
    return None if row is None else Version(*row)


def shown_version(tx: Tx, model_id: int, version: int) -> dict[str, Any] | None:
    found: dict[str, Any] | None = tx.execute(
        _SHOWN_VERSION, {"model_id": model_id, "version": version}
    ).scalar()
    return found


def listed_versions(tx: Tx, model_id: int, page: Page, sort: Sort) -> str:
    order = sort.sql(_VERSION_ORDER, "SORT_BY_VERSION")
    where = ["v.model_id = :model_id"]
    listing = Listing("modelVersions", _VERSION, _VERSION_FROM, where, order)
    return pages.fetch(tx, listing, page, {"model_id": model_id})


def create_version(tx: Tx, model_id: int, values: dict[str, Any], now: datetime) -> int:
    """Return the number of the new version, the next one of its model."""
    v = model_versions.c
    latest = func.coalesce(func.max(v.version), 0)
    number = select(latest + 1).where(v.model_id == model_id).scalar_subquery()
    new = insert(model_versions).values(
        **values, model_id=model_id, version=number, created_at=now, updated_at=now
    )
    return int(tx.execute(new.returning(v.version)).scalar_one())


def change_version(tx: Tx, version_id: int, values: dict[str, Any], now: datetime) -> None:
    which = model_versions.c.id == version_id
    tx.execute(update(model_versions).where(which).values(**values, updated_at=now))


def remove_version(tx: Tx, version_id: int) -> None:
    tx.execute(delete(model_versions).where(model_versions.c.id == version_id))
