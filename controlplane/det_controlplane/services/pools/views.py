"""Pools as administrators and users see them: from the configuration and from the database."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from det_controlplane.core.config.cluster_document import pool_document
from det_controlplane.core.config.pools import Pool
from det_controlplane.core.people.roles import Right
from det_controlplane.core.secrets import redacted
from det_controlplane.db.agents import agent_views
from det_controlplane.db.agents.agent_views import PoolUse
from det_controlplane.db.people import workspaces
from det_controlplane.db.scheduling import pool_access as access_rows
from det_controlplane.db.scheduling import pool_bindings, resource_pools
from det_controlplane.db.scheduling.pool_access import Access
from det_controlplane.db.scheduling.resource_pools import History
from det_controlplane.services import stored_pools
from det_controlplane.services.context import Context
from det_controlplane.services.machines import administration as machines
from det_controlplane.services.organization import pool_access
from det_controlplane.services.organization.pool_bindings import require_known
from det_controlplane.services.principal import User

_SECTIONS = ("startup_script", "container_startup_script")


def listed(ctx: Context) -> list[dict[str, Any]]:
    """Return every pool, in the order of the configuration, then by age."""
    use = agent_views.use_of_pools(ctx.db)
    with ctx.db.autocommit() as tx:
        access, bound = access_rows.every(tx), pool_bindings.by_pool(tx)
        histories = resource_pools.histories(tx)
        names = workspaces.named(tx, sorted({id for ids in bound.values() for id in ids}), [])
    return [
        _shown(ctx, pool, use.get(pool.pool_name, PoolUse()), access.get(pool.pool_name))
        | {"workspaces": [names.get(id, str(id)) for id in bound.get(pool.pool_name, ())]}
        | _origin(ctx, pool, histories.get(pool.pool_name))
        for pool in ctx.config.resource_pools
    ]


def one(ctx: Context, caller: User, name: str) -> dict[str, Any]:
    """Return a pool with its work and machines, and with its settings if the caller may see the configuration."""
    require_known(ctx, name)
    pool = ctx.config.pool(name)
    assert pool is not None
    (shown,) = [entry for entry in listed(ctx) if entry["name"] == name]
    with ctx.db.autocommit() as tx:
        work = resource_pools.work_of(tx, name)
    shown["work"] = {
        "running": work.running, "queued": work.queued,
        "activeExperiments": work.active, "pausedExperiments": work.paused,
    }  # fmt: skip
    shown["rented"] = machines.pool(ctx, name) if pool.offers else None
    may_see = Right.VIEW_MASTER_CONFIG in caller.grants.everywhere
    shown["settings"] = settings_of(ctx, pool) if may_see else None
    return shown


def settings_of(ctx: Context, pool: Pool) -> Mapping[str, Any]:
    """Return the settings of a pool as they were written, without secrets."""
    with ctx.db.autocommit() as tx:
        rows = {row.name: row.settings for row in resource_pools.every(tx)}
    if pool.pool_name in rows:
        return rows[pool.pool_name]
    written = stored_pools.file_config(ctx).written_pools.get(pool.pool_name)
    settings: Mapping[str, Any] = redacted(written or pool_document(pool))
    return settings


def _shown(ctx: Context, pool: Pool, use: PoolUse, access: Access | None) -> dict[str, Any]:
    limits = pool.limits
    return {
        "name": pool.pool_name,
        "description": pool.description,
        "kind": "rented" if pool.provider else "static",
        "providers": sorted({section.provider for section in pool.sections}),
        "source": "database" if pool.is_stored else "configuration",
        "state": "leaving" if pool.is_leaving else "ready",
        "problem": pool.problem,
        "isDefaultCompute": pool.pool_name == ctx.config.default_compute_resource_pool,
        "isDefaultAux": pool.pool_name == ctx.config.default_aux_resource_pool,
        "scheduler": pool.scheduler.type,
        "agents": use.agents,
        "slots": use.slots,
        "usedSlots": use.used,
        "queuedJobs": use.queued,
        "runningJobs": use.scheduled,
        "minInstances": limits.min_instances if pool.provider else None,
        "maxInstances": limits.max_instances if pool.provider else None,
        "access": pool_access.shown(access),
    }


def _origin(ctx: Context, pool: Pool, history: History | None) -> dict[str, Any]:
    """Return who stored a pool and when, and whether the configuration has an entry that is ignored."""
    base = stored_pools.file_config(ctx)
    is_ignored = pool.is_stored and base.pool(pool.pool_name) is not None
    if history is None:
        return {
            "adopted": False, "ignoresEntry": is_ignored, "createdAt": None, "createdBy": None,
            "changedAt": None, "changedBy": None, "leavingSince": None, "agentsTo": None,
        }  # fmt: skip
    return {
        "adopted": history.adopted, "ignoresEntry": is_ignored,
        "createdAt": _time(history.created_at), "createdBy": history.created_by,
        "changedAt": _time(history.changed_at), "changedBy": history.changed_by,
        "leavingSince": _time(history.leaving_since), "agentsTo": history.agents_to,
    }  # fmt: skip


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
