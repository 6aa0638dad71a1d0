"""Projects: their rows, notes and JSON, and when users last viewed them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.pages import Collection, one_of, owner_filters
from det_controlplane.db.engine.views import deletion_state, moment, shown
from det_controlplane.db.people.workspaces import OwnedRow
from det_controlplane.db.schema import (
    experiments,
    jobs,
    project_views,
    projects,
    trial_counts,
    users,
    workspaces,
)
from det_controlplane.db.schema.base import Time


@dataclass(frozen=True, slots=True)
class ProjectRow(OwnedRow):
    """A project, which is archived with its workspace, too."""

    kind = "project"

    workspace_id: int
    workspace_name: str
    workspace_archived: bool


_p, _e = projects.c, experiments.c
_ARCHIVED = or_(_p.archived, workspaces.c.archived)
_KNOWN = (
    select(
        _p.id, _p.name, _p.user_id, _p.immutable, _ARCHIVED, _p.state, _p.workspace_id,
        workspaces.c.name, workspaces.c.archived,
    )
    .select_from(projects.join(workspaces))
    .where(_p.id == bindparam("id"))
)  # fmt: skip
_LOCK = _KNOWN.with_for_update(of=projects)
_SHARE = _KNOWN.with_for_update(of=projects, read=True)
_COUNT = select(func.count()).select_from(experiments).where(_e.project_id == _p.id)
# States, and not ended_at: the index `experiments_of_project` has them.
_ACTIVE = _COUNT.where(
    _e.state.in_([s for s in ExperimentState if not s.terminal and s is not ExperimentState.PAUSED])
)
_RUNS = select(func.coalesce(func.sum(trial_counts.c.trials), 0)).where(
    trial_counts.c.project_id == _p.id
)
_LAST_START = select(func.max(_e.started_at)).where(_e.project_id == _p.id)
_LISTED = Collection(
    "projects",
    select(
        shown(
            _p.id, _p.name, _p.description, _p.key, _p.notes, _p.workspace_id, _p.user_id, users.c.username, _p.immutable,
            _p.error_message, workspaceName=workspaces.c.name, archived=_ARCHIVED, state=deletion_state(_p.state),
            numExperiments=_COUNT.scalar_subquery(), numActiveExperiments=_ACTIVE.scalar_subquery(),
            numRuns=_RUNS.scalar_subquery(), lastExperimentStartedAt=moment(_LAST_START.scalar_subquery()),
        )
    ).select_from(projects.join(workspaces).join(users, users.c.id == _p.user_id)),
    orders={
        "SORT_BY_ID": _p.id, "SORT_BY_NAME": func.lower(_p.name), "SORT_BY_DESCRIPTION": _p.description,
        "SORT_BY_CREATION_TIME": _p.created_at, "SORT_BY_LAST_EXPERIMENT_START_TIME": _LAST_START.scalar_subquery(),
    },
    filters={
        **owner_filters(projects),
        "workspace_id": _p.workspace_id == bindparam("workspace_id"),
        "in_workspaces": one_of(_p.workspace_id, "in_workspaces"),
        "archived": bindparam("archived") == _ARCHIVED,
    },
)  # fmt: skip
_ONE = _LISTED.rows.where(_p.id == bindparam("id"))
_BY_KEY = _LISTED.rows.where(_p.key == func.upper(bindparam("key")))


def one(tx: Tx, project_id: int) -> dict[str, Any] | None:
    project: dict[str, Any] | None = tx.execute(_ONE, {"id": project_id}).scalar()
    return project


def by_key(tx: Tx, key: str) -> dict[str, Any] | None:
    project: dict[str, Any] | None = tx.execute(_BY_KEY, {"key": key}).scalar()
    return project


def listed(db: Database, page: Page, sort: Sort, filters: dict[str, Any]) -> Iterator[str]:
    return pages.find(db, _LISTED, page, sort, filters)


def lock(tx: Tx, project_id: int) -> ProjectRow | None:
    row = tx.execute(_LOCK, {"id": project_id}).first()
    return None if row is None else ProjectRow(*row)


def share(tx: Tx, project_id: int) -> ProjectRow | None:
    """Lock a project against being changed, but not against others who only share it."""
    row = tx.execute(_SHARE, {"id": project_id}).first()
    return None if row is None else ProjectRow(*row)


def key_is_used(tx: Tx, key: str) -> bool:
    return tx.execute(select(_p.id).where(_p.key == key)).first() is not None


def create(tx: Tx, workspace_id: int, user_id: int, name: str, key: str, description: str) -> int:
    values = {
        "workspace_id": workspace_id, "user_id": user_id, "name": name, "key": key, "description": description,
    }  # fmt: skip
    return int(tx.execute(insert(projects).values(values).returning(_p.id)).scalar_one())


def change(tx: Tx, project_id: int, **columns: Any) -> None:
    if columns:
        tx.execute(update(projects).where(_p.id == project_id).values(columns))


def move(tx: Tx, project_id: int, workspace_id: int) -> None:
    """Move a project, and the jobs of its experiments, to another workspace."""
    change(tx, project_id, workspace_id=workspace_id)
    own = select(_e.job_id).where(_e.project_id == project_id)
    tx.execute(update(jobs).where(jobs.c.id.in_(own)).values(workspace_id=workspace_id))


def set_notes(tx: Tx, project_id: int, notes: Any) -> list[dict[str, str]] | None:
    statement = update(projects).where(_p.id == project_id).values(notes=notes).returning(_p.notes)
    new_notes: list[dict[str, str]] | None = tx.execute(statement).scalar()
    return new_notes


def add_note(tx: Tx, project_id: int, note: dict[str, str]) -> list[dict[str, str]] | None:
    return set_notes(tx, project_id, _p.notes.concat([note]))


def note_view(tx: Tx, project_id: int, user_id: int, now: datetime) -> bool:
    """Record that a user looked at a project; return whether that exists."""
    view = select(literal(user_id), _p.id, literal(now, Time)).where(_p.id == project_id)
    statement = insert(project_views).from_select(["user_id", "project_id", "viewed_at"], view)
    later = statement.on_conflict_do_update(
        constraint=project_views.primary_key, set_={"viewed_at": statement.excluded.viewed_at}
    )
    return tx.execute(later).rowcount == 1


def viewed_last(tx: Tx, user_id: int, limit: int) -> list[dict[str, Any]]:
    views = project_views.c
    query = _LISTED.rows.join(project_views, views.project_id == _p.id)
    mine = query.where(views.user_id == user_id).order_by(views.viewed_at.desc()).limit(limit)
    return list(tx.execute(mine).scalars())
