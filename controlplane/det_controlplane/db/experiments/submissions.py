"""Read the data for the creation of an experiment: its project, template and parent."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import func, select, text

from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.schema import experiments, projects, templates, workspaces

_PROJECT = """
    SELECT p.id, p.workspace_id, p.archived OR w.archived AS archived, p.state IS NOT NULL AS deleting,
           w.checkpoint_storage, w.sealed AS storage_secrets, w.default_compute_pool, w.default_aux_pool,
           (SELECT json_agg(json_build_array(c.policy, c.sealed) ORDER BY c.workspace_id DESC) FROM config_policies c
            WHERE c.workload_type = 'EXPERIMENT' AND c.workspace_id IN (0, p.workspace_id)) AS policies,
           (SELECT json_object_agg(b.pool, b.workspaces) FROM (
                SELECT pool, json_agg(workspace_id) AS workspaces FROM pool_bindings GROUP BY pool) b) AS bound_pools,
           (SELECT json_agg(pool) FROM restricted_pools) AS restricted_pools
    FROM projects p JOIN workspaces w ON w.id = p.workspace_id
"""
_WORKSPACE = text("""
    SELECT w.id AS workspace_id, w.archived, w.state IS NOT NULL AS deleting, w.default_compute_pool, w.default_aux_pool,
           (SELECT json_agg(c.policy ORDER BY c.workspace_id DESC) FROM config_policies c
            WHERE c.workload_type = 'NTSC' AND c.workspace_id IN (0, w.id)) AS policies,
           (SELECT json_object_agg(b.pool, b.workspaces) FROM (
                SELECT pool, json_agg(workspace_id) AS workspaces FROM pool_bindings GROUP BY pool) b) AS bound_pools,
           (SELECT json_agg(pool) FROM restricted_pools) AS restricted_pools
    FROM workspaces w WHERE w.id = :id
""")
_PROJECT_BY_ID = text(f"{_PROJECT} WHERE p.id = :id")
_PROJECT_BY_NAME = text(
    f"{_PROJECT} WHERE lower(w.name) = lower(:workspace) AND lower(p.name) = lower(:project)"
)


@dataclass(frozen=True, slots=True)
class TargetProject:
    """The project of a new experiment, with the settings of its workspace."""

    id: int
    workspace_id: int
    archived: bool
    deleting: bool
    checkpoint_storage: dict[str, Any] | None
    storage_secrets: str | None
    default_compute_pool: str | None
    default_aux_pool: str | None
    # With secrets; the workspace's first, then the cluster's.
    policies: list[tuple[dict[str, Any], str | None]] | None
    bound_pools: dict[str, list[int]] | None  # workspaces by pool
    restricted_pools: list[str] | None


@dataclass(frozen=True, slots=True)
class TargetWorkspace:
    """The workspace of a new task, with its settings for tasks other than trials."""

    workspace_id: int
    archived: bool
    deleting: bool
    default_compute_pool: str | None
    default_aux_pool: str | None
    policies: list[dict[str, Any]] | None  # the workspace's first, then the cluster's
    bound_pools: dict[str, list[int]] | None  # workspaces by pool
    restricted_pools: list[str] | None


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


def workspace_named(db: Database, name: str) -> int | None:
    query = select(workspaces.c.id).where(func.lower(workspaces.c.name) == func.lower(name))
    rows = db.read(query)
    return rows[0].id if rows else None


def workspace(db: Database, workspace_id: int) -> TargetWorkspace | None:
    for row in db.read(_WORKSPACE, {"id": workspace_id}):
        return TargetWorkspace(**row._mapping)
    return None


@dataclass(frozen=True, slots=True)
class StoredConfig:
    config: dict[str, Any]
    sealed: str | None
    user_id: int | None = None


def template(db: Database, name: str) -> StoredConfig | None:
    query = select(templates.c.config, templates.c.sealed).where(templates.c.name == name)
    rows = db.read(query)
    return StoredConfig(rows[0].config, rows[0].sealed) if rows else None


def experiment_config(db: Database, experiment_id: int) -> StoredConfig | None:
    e = experiments.c
    rows = db.read(select(e.config, e.sealed, e.user_id).where(e.id == experiment_id))
    return StoredConfig(**rows[0]._mapping) if rows else None


def parent(tx: Tx, experiment_id: int) -> Parent | None:
    archived = projects.c.archived | workspaces.c.archived
    query = select(experiments.c.context_id, archived).join_from(experiments, projects)
    query = query.join(workspaces, workspaces.c.id == projects.c.workspace_id)
    row = tx.execute(query.where(experiments.c.id == experiment_id)).first()
    return None if row is None else Parent(*row)
