"""Templates: fragments of configuration under a name."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Text, bindparam, delete, select, update
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.pages import Collection, has_text, one_of
from det_controlplane.db.engine.views import shown
from det_controlplane.db.schema import templates

_t = templates.c
_LISTED = Collection(
    "templates",
    select(shown(_t.name, _t.config, _t.workspace_id)),
    orders={"SORT_BY_NAME": _t.name},
    filters={
        "name": has_text(_t.name, bindparam("name", type_=Text())),
        "in_workspaces": one_of(_t.workspace_id, "in_workspaces"),
        "workspace_ids": one_of(_t.workspace_id, "workspace_ids"),
    },
)


def one(tx: Tx, name: str) -> dict[str, Any] | None:
    template: dict[str, Any] | None = tx.execute(_LISTED.rows.where(_t.name == name)).scalar()
    return template


def listed(db: Database, page: Page, sort: Sort, filters: dict[str, Any]) -> Iterator[str]:
    return pages.find(db, _LISTED, page, sort, filters)


@dataclass(frozen=True, slots=True)
class StoredTemplate:
    """The configuration of a template, its secrets and the user who created it."""

    config: dict[str, Any]
    sealed: str | None
    user_id: int | None


def stored(tx: Tx, name: str) -> StoredTemplate | None:
    row = tx.execute(select(_t.config, _t.sealed, _t.user_id).where(_t.name == name)).first()
    return None if row is None else StoredTemplate(*row)


def create(tx: Tx, name: str, workspace_id: int, user_id: int, **config: Any) -> None:
    values = {"name": name, "workspace_id": workspace_id, "user_id": user_id, **config}
    tx.execute(insert(templates).values(values))


def put(tx: Tx, name: str, workspace_id: int, user_id: int, **config: Any) -> None:
    """Create a template, or replace the configuration of the one that has its name. Its owner stays."""
    new = insert(templates).values(name=name, workspace_id=workspace_id, user_id=user_id, **config)
    tx.execute(new.on_conflict_do_update(index_elements=[_t.name], set_=config))


def change(tx: Tx, template: str, **columns: Any) -> None:
    tx.execute(update(templates).where(_t.name == template).values(columns))


def remove(tx: Tx, name: str) -> bool:
    return tx.execute(delete(templates).where(_t.name == name)).rowcount == 1
