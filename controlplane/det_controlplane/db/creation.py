"""What the creation of an experiment looks up: its project, template and parent."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import select, text

from det_controlplane.db.engine import Database, Tx
from det_controlplane.db.schema import experiments, projects, templates, workspaces

_PROJECT = """
    SELECT p.id, p.workspace_id, p.archived OR w.archived AS archived, p.state IS NOT NULL AS deleting,
           w.checkpoint_storage, w.default_compute_pool, w.default_aux_pool,
           (SELECT json_agg(c.policy ORDER BY c.workspace_id DESC) FROM config_policies c
            WHERE c.workload_type = 'EXPERIMENT' AND c.workspace_id IN (0, p.workspace_id)) AS policies,
           (SELECT json_object_agg(b.pool, b.workspaces) FROM (
                SELECT pool, json_agg(workspace_id) AS workspaces FROM pool_bindings GROUP BY pool) b) AS bound_pools
    FROM projects p JOIN workspaces w ON w.id = p.workspace_id
"""
_PROJECT_BY_ID = text(f"{_PROJECT} WHERE p.id = :id")
_PROJECT_BY_NAME = text(
    f"{_PROJECT} WHERE lower(w.name) = lower(:workspace) AND lower(p.name) = lower(:project)"
)


@dataclass(frozen=True, slots=True)
class TargetProject:
    """The project of a new experiment, with what its workspace settles for it."""

    id: int
    workspace_id: int
    archived: bool
    deleting: bool
    checkpoint_storage: dict[str, Any] | None
    default_compute_pool: str | None
    default_aux_pool: str | None
    policies: list[dict[str, Any]] | None  # the workspace's first, then the cluster's
    bound_pools: dict[str, list[int]] | None  # workspaces by pool


@dataclass(frozen=True, slots=True)
class Parent:
    """The experiment that a new one is forked from."""

    context_id: UUID | None
    archived: bool


def project_by_id(db: Database, project_id: int) -> TargetProject | None:
    for row in db.read(_PROJECT_BY_ID, {"id": project_id}):
        return TargetProject(**row._mapping)
    return None


def project_by_name(db: Database, workspace: str, project: str) -> TargetProject | None:
    for row in db.read(_PROJECT_BY_NAME, {"workspace": workspace, "project": project}):
        return TargetProject(**row._mapping)
    return None


def template(db: Database, name: str) -> dict[str, Any] | None:
    rows = db.read(select(templates.c.config).where(templates.c.name == name))
    return rows[0].config if rows else None


def parent(tx: Tx, experiment_id: int) -> Parent | None:
    archived = projects.c.archived | workspaces.c.archived
    found = select(experiments.c.context_id, archived).join_from(experiments, projects)
    found = found.join(workspaces, workspaces.c.id == projects.c.workspace_id)
    row = tx.execute(found.where(experiments.c.id == experiment_id)).first()
    return None if row is None else Parent(*row)
