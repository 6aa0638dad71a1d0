"""Workspaces: their rows, users' pins, and their JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar, Literal

from sqlalchemy import and_, bindparam, delete, func, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.pages import Collection, one_of, owner_filters
from det_controlplane.db.engine.views import deletion_state, moment, shown
from det_controlplane.db.schema import experiments, projects, users, workspace_pins, workspaces
from det_controlplane.db.schema.enums import DeletionState

Kind = Literal["workspace", "project"]


@dataclass(frozen=True, slots=True)
class OwnedRow:
    """A workspace or project under a lock of its row."""

    kind: ClassVar[Kind]

    id: int
    name: str
    user_id: int
    immutable: bool
    archived: bool
    state: DeletionState | None


@dataclass(frozen=True, slots=True)
class WorkspaceRow(OwnedRow):
    kind = "workspace"

    checkpoint_storage: dict[str, Any] | None
    sealed: str | None


_w, _pins = workspaces.c, workspace_pins.c
_ROW = select(*(_w[field.name] for field in fields(WorkspaceRow))).where(_w.id == bindparam("id"))
_LOCK, _SHARE = _ROW.with_for_update(), _ROW.with_for_update(read=True)
_MINE = and_(_pins.workspace_id == _w.id, _pins.user_id == bindparam("me"))
_IS_PINNED = _pins.pinned_at.is_not(None)
_PROJECTS = select(func.count()).where(projects.c.workspace_id == _w.id)
_EXPERIMENTS = (
    select(func.count())
    .select_from(experiments.join(projects))
    .where(projects.c.workspace_id == _w.id)
)
_LISTED = Collection(
    "workspaces",
    select(
        shown(
            _w.id, _w.name, _w.archived, users.c.username, _w.user_id, _w.immutable, _w.error_message,
            state=deletion_state(_w.state), agentUserGroup=_w.agent_user, checkpointStorageConfig=_w.checkpoint_storage,
            defaultComputePool=func.coalesce(_w.default_compute_pool, ""), defaultAuxPool=func.coalesce(_w.default_aux_pool, ""),
            numProjects=_PROJECTS.scalar_subquery(), numExperiments=_EXPERIMENTS.scalar_subquery(),
            pinned=_IS_PINNED, pinnedAt=moment(_pins.pinned_at), autoCreatedNamespace=literal_column("''"),
        )
    ).select_from(workspaces.join(users).outerjoin(workspace_pins, _MINE)),
    orders={"SORT_BY_ID": _w.id, "SORT_BY_NAME": func.lower(_w.name)},
    filters={
        **owner_filters(workspaces),
        "name_case_sensitive": func.strpos(_w.name, bindparam("name_case_sensitive")) > 0,
        "in_workspaces": one_of(_w.id, "in_workspaces"),
        "archived": _w.archived == bindparam("archived"),
        "pinned": bindparam("pinned") == _IS_PINNED,
    },
)  # fmt: skip
_ONE = _LISTED.rows.where(_w.id == bindparam("id"))


def one(tx: Tx, workspace_id: int, user_id: int) -> dict[str, Any] | None:
    """Return a workspace as this user sees it."""
    workspace: dict[str, Any] | None = tx.execute(
        _ONE, {"id": workspace_id, "me": user_id}
    ).scalar()
    return workspace


def listed(
    db: Database, user_id: int, page: Page, sort: Sort, filters: dict[str, Any]
) -> Iterator[str]:
    return pages.find(db, _LISTED, page, sort, filters, me=user_id)


def owner(tx: Tx, workspace_id: int) -> int | None:
    return tx.execute(select(_w.user_id).where(_w.id == workspace_id)).scalar()


def owners(tx: Tx) -> dict[int, int]:
    """Return the owner of each workspace, by its id."""
    return {row.id: row.user_id for row in tx.execute(select(_w.id, _w.user_id))}


def lock(tx: Tx, workspace_id: int) -> WorkspaceRow | None:
    row = tx.execute(_LOCK, {"id": workspace_id}).first()
    return None if row is None else WorkspaceRow(*row)


def share(tx: Tx, workspace_id: int) -> WorkspaceRow | None:
    """Lock a workspace against being changed, but not against others who only share it."""
    row = tx.execute(_SHARE, {"id": workspace_id}).first()
    return None if row is None else WorkspaceRow(*row)


def named(tx: Tx, ids: Sequence[int], names: Sequence[str]) -> dict[int, str]:
    """Return the names of existing workspaces."""
    condition = one_of(_w.id, "ids") | one_of(_w.name, "names")
    rows = tx.execute(
        select(_w.id, _w.name).where(condition), {"ids": list(ids), "names": list(names)}
    )
    return {row.id: row.name for row in rows}


def create(tx: Tx, user_id: int, **columns: Any) -> int:
    statement = insert(workspaces).values(user_id=user_id, **columns).returning(_w.id)
    return int(tx.execute(statement).scalar_one())


def change(tx: Tx, workspace_id: int, **columns: Any) -> None:
    if columns:
        tx.execute(update(workspaces).where(_w.id == workspace_id).values(columns))


def pin(tx: Tx, workspace_id: int, user_id: int, now: datetime) -> None:
    values = {"workspace_id": workspace_id, "user_id": user_id, "pinned_at": now}
    tx.execute(insert(workspace_pins).values(values).on_conflict_do_nothing())


def unpin(tx: Tx, workspace_id: int, user_id: int) -> None:
    tx.execute(
        delete(workspace_pins).where(_pins.workspace_id == workspace_id, _pins.user_id == user_id)
    )
