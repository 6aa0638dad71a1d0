"""The pools of the database in the configuration of a request, a tick or a pass of cloud calls.

Each process remembers the merged configuration by the count of changes. Requests learn the count with their caller, by
the statement that authenticates; ticks and passes read it. So a change is in force at once, without a query more per
request.
"""

import logging
from dataclasses import replace

from det_controlplane.core.config import ClusterConfig
from det_controlplane.core.config.stored_pools import StoredPool, StoredPools, merge_pools
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.scheduling import resource_pools
from det_controlplane.services import sealing
from det_controlplane.services.context import Context
from det_controlplane.services.memory import MergedPools

log = logging.getLogger("det.config")


def at(ctx: Context, revision: int) -> Context:
    """Return the context with the pools of the database, which are read if this process does not know the revision."""
    known = _known(ctx)
    if known is None and revision == 0:
        return ctx
    if known is None or known.revision < revision:
        known = _read(ctx)
    return _with(ctx, known)


def current(ctx: Context) -> Context:
    """Return the context with the pools that the database has now."""
    with ctx.db.autocommit() as tx:
        revision = resource_pools.defaults(tx).revision
    return at(ctx, revision)


def known(ctx: Context, *, read: bool = False) -> Context:
    """Return the context with the pools that this process knows. `read` reads them if it does not know any yet."""
    merged = _known(ctx)
    if merged is None and not read:
        return ctx
    return _with(ctx, merged or _read(ctx))


def file_config(ctx: Context) -> ClusterConfig:
    """Return the configuration without the pools of the database."""
    return ctx.file_config or ctx.config


def _known(ctx: Context) -> MergedPools | None:
    merged = ctx.memory.pools
    return merged if merged is not None and merged.file_config is file_config(ctx) else None


def _with(ctx: Context, merged: MergedPools) -> Context:
    verifiers = ctx.verifiers
    if merged.machines is not None:
        verifiers = replace(verifiers, machines=merged.machines)
    return replace(ctx, config=merged.config, file_config=merged.file_config, verifiers=verifiers)


def _read(ctx: Context) -> MergedPools:
    base = file_config(ctx)
    with ctx.db.autocommit() as tx:
        defaults = resource_pools.defaults(tx)
        stored = _stored(ctx, tx)
    for fault in ctx.clouds.prepare(pool.settings for pool in stored.pools) if ctx.clouds else ():
        log.error("a pool of the database rents no machines: %s", fault)
    config = merge_pools(
        base, replace(stored, default_compute=defaults.compute, default_aux=defaults.aux)
    )
    machines = None if ctx.clouds is None or not stored.pools else ctx.clouds.identities(config)
    _report(ctx, base, config)
    merged = MergedPools(defaults.revision, base, config, machines)
    ctx.memory.pools = merged
    return merged


def _stored(ctx: Context, tx: Tx) -> StoredPools:
    rows = resource_pools.every(tx)
    return StoredPools(
        tuple(
            StoredPool(row.name, sealing.unsealed(ctx, row.settings, row.sealed), row.is_leaving)
            for row in rows
        )
    )


def _report(ctx: Context, base: ClusterConfig, config: ClusterConfig) -> None:
    """Log pools that cannot be read. At the first read, also log entries of the file that the database replaces."""
    for pool in config.resource_pools:
        if pool.problem:
            log.error("pool %s of the database rents no machines: %s", pool.pool_name, pool.problem)
        if pool.is_stored and base.pool(pool.pool_name) and ctx.memory.pools is None:
            log.warning(
                "the cluster configuration's entry for pool %s is ignored, because the pool is in the database:"
                " remove the entry, or return the pool with `det pool release %s`",
                pool.pool_name, pool.pool_name,
            )  # fmt: skip
