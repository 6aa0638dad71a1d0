"""The model registry: named models and their versions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, literal_column, select, update

from det_controlplane.core.documents import MOST_LISTED_LABELS
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.pages import Collection, label_filters, one_of, owner_filters
from det_controlplane.db.engine.views import CHECKPOINT, CHECKPOINT_FROM, moment, shown
from det_controlplane.db.schema import model_versions, models, users, workspaces

_m, _v = models.c, model_versions.c
_COUNT = select(func.count()).where(_v.model_id == _m.id).scalar_subquery()
_MODELS = Collection(
    "models",
    select(
        shown(
            _m.id, _m.name, _m.description, _m.metadata, _m.labels, _m.notes, _m.archived, _m.workspace_id, _m.user_id,
            users.c.username, creationTime=moment(_m.created_at), lastUpdatedTime=moment(_m.updated_at), numVersions=_COUNT,
        )
    ).select_from(models.join(users).join(workspaces, workspaces.c.id == _m.workspace_id)),
    orders={
        "SORT_BY_ID": _m.id, "SORT_BY_NAME": _m.name, "SORT_BY_DESCRIPTION": _m.description,
        "SORT_BY_CREATION_TIME": _m.created_at, "SORT_BY_LAST_UPDATED_TIME": _m.updated_at,
        "SORT_BY_NUM_VERSIONS": _COUNT, "SORT_BY_WORKSPACE": workspaces.c.name,
    },
    filters={
        **owner_filters(models),
        **label_filters(models),
        "id": _m.id == bindparam("id"),
        "in_workspaces": one_of(_m.workspace_id, "in_workspaces"),
        "workspace_ids": one_of(_m.workspace_id, "workspace_ids"),
        "workspace_names": one_of(workspaces.c.name, "workspace_names"),
    },
)  # fmt: skip
_MODEL = _MODELS.rows.where(_m.id == _v.model_id).correlate(model_versions).scalar_subquery()
_CHECKPOINT = (
    f"(SELECT {CHECKPOINT} FROM {CHECKPOINT_FROM} WHERE c.uuid = model_versions.checkpoint_uuid)"
)
_VERSIONS = Collection(
    "modelVersions",
    select(
        shown(
            _v.id, _v.version, _v.name, _v.comment, _v.notes, _v.metadata, _v.labels, _v.user_id, users.c.username,
            creationTime=moment(_v.created_at), lastUpdatedTime=moment(_v.updated_at), model=_MODEL,
            checkpoint=literal_column(_CHECKPOINT),
        )
    ).select_from(model_versions.join(users)),
    orders={"SORT_BY_VERSION": _v.version, "SORT_BY_CREATION_TIME": _v.created_at, "SORT_BY_ID": _v.id},
    filters={"model_id": _v.model_id == bindparam("model_id")},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Model:
    id: int
    name: str
    user_id: int
    archived: bool
    workspace_id: int


@dataclass(frozen=True, slots=True)
class Version:
    id: int
    user_id: int


@dataclass(frozen=True, slots=True)
class Workspace:
    id: int
    archived: bool
    deleting: bool


def lock(tx: Tx, name_or_id: str) -> Model | None:
    """Lock a model; digits are an id, anything else is a name."""
    # "²" is a digit to `isdigit`, and a name.
    is_id = name_or_id.isascii() and name_or_id.isdigit() and len(name_or_id) <= 9
    which = models.c.id == int(name_or_id) if is_id else models.c.name == name_or_id
    columns = (_m.id, _m.name, _m.user_id, _m.archived, _m.workspace_id)
    row = tx.execute(select(*columns).where(which).with_for_update()).first()
    return None if row is None else Model(*row)


def one(tx: Tx, model_id: int) -> dict[str, Any]:
    model: dict[str, Any] = tx.execute(_MODELS.rows.where(_m.id == model_id)).scalar_one()
    return model


def listed(db: Database, page: Page, sort: Sort, filters: dict[str, Any]) -> Iterator[str]:
    return pages.find(db, _MODELS, page, sort, filters)


def labels(tx: Tx, workspaces: Sequence[int] | None) -> list[str]:
    """Return the labels of models in some workspaces (None: all), the most used first."""
    label = func.unnest(models.c.labels).label("label")
    each = select(label)
    if workspaces is not None:
        each = each.where(models.c.workspace_id.in_(workspaces))
    name = each.subquery().c.label
    return list(
        tx.execute(
            select(name)
            .group_by(name)
            .order_by(func.count().desc(), name)
            .limit(MOST_LISTED_LABELS)
        ).scalars()
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
    row = tx.execute(
        select(workspaces.c.id, workspaces.c.archived, workspaces.c.state.is_not(None)).where(which)
    ).first()
    return None if row is None else Workspace(*row)


def lock_version(tx: Tx, model_id: int, version: int) -> Version | None:
    v = model_versions.c
    which = (v.model_id == model_id) & (v.version == version)
    row = tx.execute(select(v.id, v.user_id).where(which).with_for_update()).first()
    return None if row is None else Version(*row)


def one_version(tx: Tx, model_id: int, version: int) -> dict[str, Any] | None:
    query = _VERSIONS.rows.where(_v.model_id == model_id, _v.version == version)
    row: dict[str, Any] | None = tx.execute(query).scalar()
    return row


def listed_versions(db: Database, model_id: int, page: Page, sort: Sort) -> Iterator[str]:
    return pages.find(db, _VERSIONS, page, sort, {"model_id": model_id})


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
