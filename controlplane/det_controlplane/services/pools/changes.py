"""Pools that are created, changed and adopted without a restart. The configuration's models check the settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.config import cluster_check, load_yaml
from det_controlplane.core.config import stored_pools as rules
from det_controlplane.core.config.cluster_document import pool_document
from det_controlplane.core.config.pools import Pool
from det_controlplane.core.people.roles import Right
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.db.agents import moves
from det_controlplane.db.scheduling import resource_pools as rows
from det_controlplane.db.scheduling.resource_pools import PoolRow
from det_controlplane.services import sealing, stored_pools
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, Taken, WrongState
from det_controlplane.services.identity.rights import require_right
from det_controlplane.services.machines import renewal
from det_controlplane.services.organization.pool_bindings import require_known
from det_controlplane.services.pools import views
from det_controlplane.services.principal import User
from det_controlplane.services.use_case import Change, change

WHAT = "pool"


@dataclass(frozen=True, slots=True)
class Submission:
    """The settings of a pool, as YAML or as an object. Changes are merged with the earlier settings."""

    config: str = ""
    settings: Mapping[str, Any] | None = None
    is_change: bool = False
    validate_only: bool = False
    replace_machines: bool = False


def create(ctx: Context, caller: User, submission: Submission) -> dict[str, Any]:
    """Create a pool. It takes work and rents machines as soon as this returns."""
    _require(caller, "create resource pools")
    settings = sealing.completed(_read(submission), None)
    name = str(settings.get("pool_name") or "")
    rules.check_name(name)
    _refuse_taken(ctx, name)
    pool = _checked(ctx, settings)
    ctx.recorder.add_objects(f"pool {name}")
    ctx.recorder.add_details(settings=sorted(settings))
    if submission.validate_only:
        return _preview(ctx, pool, settings)
    sealed = sealing.seal(ctx, settings)
    with change(ctx) as changed:
        if not rows.create(changed.tx, name, sealed.shown, sealed.secrets, caller.id, changed.now):
            raise Taken(f"resource pool '{name}' exists already: change it by `det pool update`")
        announce(changed, name)
    return _result(ctx, caller, name)


def update(ctx: Context, caller: User, name: str, submission: Submission) -> dict[str, Any]:
    """Change the settings of a pool in the database."""
    _require(caller, "change resource pools")
    given = _read(submission)
    with change(ctx) as changed:
        row = locked(ctx, changed, name)
        _refuse_leaving(row)
        earlier = sealing.unsealed(ctx, row.settings, row.sealed)
        settings = rules.merged_settings(earlier, given) if submission.is_change else dict(given)
        settings = sealing.completed({"pool_name": name, **settings}, earlier)
        if settings["pool_name"] != name:
            message = f"must stay {name!r}: create another pool and delete this one"
            raise InvalidConfig([Problem("pool_name", message)], what=WHAT)
        pool = _checked(ctx, settings)
        ctx.recorder.add_details(settings=sorted(_changed_keys(earlier, settings)))
        if submission.validate_only:
            return _preview(ctx, pool, settings)
        before = ctx.config.pool(name)
        if before is None or before.provider is None:
            _refuse_renting_with_agents(changed, pool)
        sealed = sealing.seal(ctx, settings)
        rows.change(changed.tx, name, sealed.shown, sealed.secrets, caller.id, changed.now)
        if before is None or rules.renews_machines(before, pool):
            renewal.withdraw_requests(changed, name)
        if submission.replace_machines:
            renewal.replace_machines(changed, name)
        announce(changed, name)
    return _result(ctx, caller, name)


def adopt(ctx: Context, caller: User, name: str) -> dict[str, Any]:
    """Move a pool of the configuration to the database, with the settings that its entry has now."""
    _require(caller, "adopt resource pools")
    base = stored_pools.file_config(ctx)
    pool = base.pool(name)
    stored = ctx.config.pool(name)
    if stored is not None and stored.is_stored:
        raise Taken(f"resource pool '{name}' is in the database already")
    if pool is None:
        names = ", ".join(p.pool_name for p in base.resource_pools)
        raise Missing(f"resource pool '{name}' not found; the configuration has: {names}")
    rules.check_name(name)
    settings = dict(base.written_pools.get(name) or pool_document(pool))
    sealed = sealing.seal(ctx, settings)
    with change(ctx) as changed:
        is_new = rows.create(
            changed.tx, name, sealed.shown, sealed.secrets, caller.id, changed.now, adopted=True
        )
        if not is_new:
            raise Taken(f"resource pool '{name}' is in the database already")
        announce(changed, name)
    return _result(ctx, caller, name)


def release(ctx: Context, caller: User, name: str) -> dict[str, Any]:
    """Return a pool to the configuration: its entry there decides again, and the settings of the database are lost."""
    _require(caller, "return resource pools to the configuration")
    base = stored_pools.file_config(ctx)
    with change(ctx) as changed:
        row = locked(ctx, changed, name)
        own = base.pool(name)
        if own is None:
            raise WrongState(
                f"the cluster configuration has no pool '{name}': add its entry there first, or delete the pool"
            )
        _refuse_leaving(row)
        before = ctx.config.pool(name)
        rows.forget_row(changed.tx, name)
        if before is None or rules.renews_machines(before, own):
            renewal.withdraw_requests(changed, name)
        announce(changed, name)
    return _result(ctx, caller, name)


def set_default(
    ctx: Context, caller: User, name: str, *, compute: bool, aux: bool
) -> dict[str, Any]:
    """Make a pool the default of work that names none."""
    _require(caller, "choose the default resource pools")
    require_known(ctx, name)
    pool = ctx.config.pool(name)
    if pool is not None and pool.is_leaving:
        raise WrongState(f"resource pool '{name}' is being deleted: choose another one")
    if not (compute or aux):
        raise InvalidConfig([Problem("", "give compute, aux or both")], what="default pool")
    with change(ctx) as changed:
        rows.set_defaults(changed.tx, compute=name if compute else None, aux=name if aux else None)
        announce(changed, name)
    return _result(ctx, caller, name)


def _require(caller: User, what: str) -> None:
    require_right(caller, Right.UPDATE_MASTER_CONFIG, what)


def _read(submission: Submission) -> dict[str, Any]:
    if submission.config and submission.settings is not None:
        raise InvalidConfig([Problem("", "give config or settings, not both")], what=WHAT)
    if submission.settings is not None:
        return dict(submission.settings)
    return load_yaml(submission.config, what=WHAT)


def _checked(ctx: Context, settings: Mapping[str, Any]) -> Pool:
    """Return the pool of some settings. Raises InvalidConfig with all problems, and for a cloud without a provisioner."""
    faults = ctx.clouds.prepare([settings]) if ctx.clouds else ()
    if faults:
        raise InvalidConfig([Problem("", fault) for fault in faults], what=WHAT)
    pool = rules.read_stored_pool(ctx.config, settings)
    problems = list(cluster_check.task_problems(ctx.config, pool))
    for provider in rules.providers([pool]):
        fault = ctx.clouds.refusal(provider) if ctx.clouds else ""
        if fault:
            problems.append(Problem("provider.type", fault))
    if problems:
        raise InvalidConfig(problems, what=WHAT)
    return pool


def _refuse_taken(ctx: Context, name: str) -> None:
    existing = ctx.config.pool(name)
    if existing is None:
        return
    if existing.is_stored:
        raise Taken(f"resource pool '{name}' exists already: change it by `det pool update {name}`")
    raise Taken(
        f"resource pool '{name}' is in the cluster configuration: move it to the database by"
        f" `det pool adopt {name}`, then change it"
    )


def _refuse_renting_with_agents(change: Change, pool: Pool) -> None:
    """Refuse machines of a cloud in a pool that has agents of its own, which the pool would count as its machines."""
    if pool.provider is None:
        return
    leaving = rows.taken_agents(change.tx, pool.pool_name)
    if leaving:
        message = f"cannot be added: the pool gets the agents of pool {leaving[0]!r}, which is being deleted"
        raise InvalidConfig([Problem("provider", message)], what=WHAT)
    name = pool.pool_name
    agents = sorted({*moves.in_pool(change.tx, name), *moves.to_pool(change.tx, name)})
    if agents:
        names = ", ".join(agents[:5]) + (f" and {len(agents) - 5} more" if len(agents) > 5 else "")
        message = f"cannot be added: the pool has or gets agents that are not rented ({names}); move them first"
        raise InvalidConfig([Problem("provider", message)], what=WHAT)


def _refuse_leaving(row: PoolRow) -> None:
    if row.is_leaving:
        raise WrongState(
            f"resource pool '{row.name}' is being deleted: keep it first, by `det pool delete {row.name} --cancel`"
        )


def locked(ctx: Context, change: Change, name: str) -> PoolRow:
    """Lock and return a pool of the database. Raises with the way to change other pools."""
    row = rows.locked(change.tx, name)
    if row is not None:
        return row
    if stored_pools.file_config(ctx).pool(name) is not None:
        raise WrongState(
            f"resource pool '{name}' is in the cluster configuration, where a restart changes it;"
            f" to change it here, move it to the database by `det pool adopt {name}`"
        )
    names = ", ".join(p.pool_name for p in ctx.config.resource_pools)
    raise Missing(f"resource pool '{name}' not found; this cluster has: {names}")


def _changed_keys(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    return {key for key in earlier.keys() | now.keys() if earlier.get(key) != now.get(key)}


def _preview(ctx: Context, pool: Pool, settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": pool.pool_name,
        "settings": sealing.seal(ctx, settings).shown,
        "offers": len(pool.offers),
        "notices": _notices(ctx, pool),
    }


def _notices(ctx: Context, pool: Pool) -> list[str]:
    """Return settings without effect, and machines that cannot reach the bucket of checkpoints."""
    ignored = [
        f"{key} has no effect here" for key in (pool.provider.ignored if pool.provider else ())
    ]
    return [
        *ignored,
        *cluster_check.credential_warnings_of(ctx.config, pool),
        *cluster_check.reach_warnings(ctx.config, pool, ctx.host.public_url),
    ]


def _result(ctx: Context, caller: User, name: str) -> dict[str, Any]:
    now = stored_pools.current(ctx)
    pool = now.config.pool(name)
    notices = _notices(now, pool) if pool is not None else []
    return views.one(now, caller, name) | {"notices": notices}


def announce(change: Change, name: str) -> None:
    """Let every process read the pools again, and have the pool scheduled and its machines decided on."""
    rows.count_change(change.tx)
    change.queue_changed(name)
    change.wake("provision")
