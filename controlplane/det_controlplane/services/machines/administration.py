"""Looking at rented machines and at the pools that rent them, and steering both by hand."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

from det_controlplane.core.config.pools import Pool
from det_controlplane.core.money.budget import spent_sentence
from det_controlplane.core.paging import Page, Sort
from det_controlplane.core.people.roles import Right
from det_controlplane.core.provision import catalog
from det_controlplane.core.provision.offers import Capacity, Offer, Scope
from det_controlplane.core.provision.prices import MarketKnowledge, current, is_own_price, quote_of
from det_controlplane.core.provision.spot_history import SpotSpell, spell_of
from det_controlplane.core.provision.warm import WarmPolicy
from det_controlplane.db.agents import agents
from det_controlplane.db.machines import (
    deadlines,
    failed_offers,
    machine_views,
    machines,
    market,
    pool_holds,
    provision,
    spot_spells,
    warm_pools,
)
from det_controlplane.db.machines.warm_pools import ShownWarmPool
from det_controlplane.db.money import budgets
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, WrongState
from det_controlplane.services.identity.rights import require_right
from det_controlplane.services.machines import starts
from det_controlplane.services.principal import User
from det_controlplane.services.use_case import change


def listed(ctx: Context, page: Page, sort: Sort, filters: dict[str, Any]) -> Iterator[str]:
    """Return machines, including machines of pools that stopped renting."""
    pool = filters.get("pool")
    if pool and ctx.config.pool(pool) is None:
        with ctx.db.autocommit() as tx:
            if not machines.any_of(tx, pool):
                raise Missing(_no_such_pool(ctx, pool))
    return machine_views.listed(ctx.db, page, sort, filters, ctx.now())


def instance(ctx: Context, caller: User, id: str) -> dict[str, Any]:
    """Return a machine. Administrators also get its console output, because user data may print secrets there."""
    machine = _instance(ctx, id)
    if Right.UPDATE_AGENTS not in caller.grants.everywhere:
        machine["console"] = None
    return machine


def _instance(ctx: Context, id: str) -> dict[str, Any]:
    with ctx.db.autocommit() as tx:
        machine = machine_views.one(tx, _id(id), ctx.now())
    if machine is None:
        raise Missing(f"instance '{id}' not found; `det instance list --all` shows every one")
    return machine


def _id(id: str) -> UUID:
    try:
        return UUID(id)
    except ValueError:
        raise Missing(f"instance '{id}' not found: ids of instances are UUIDs") from None


def terminate(ctx: Context, caller: User, id: str) -> dict[str, Any]:
    """Order the termination of a machine. Its work is placed again elsewhere."""
    require_right(caller, Right.UPDATE_AGENTS, "terminate instances")
    machine = _instance(ctx, id)
    with change(ctx) as changed:
        reason = f"terminated by {caller.username}"
        agent = machines.terminate(changed.tx, _id(id), reason, changed.now)
        if agent is None and machine["endedAt"] is not None:
            raise WrongState(f"instance '{id}' has ended already")
        if agent is not None:
            agents.put_in_service(changed.tx, agent, None, enabled=False, draining=False)
        changed.queue_changed(machine["pool"])
        changed.wake("provision")
    return _instance(ctx, id)


def pools(ctx: Context) -> list[dict[str, Any]]:
    """Return the pools that rent machines, with their offers and the reasons why they do not rent."""
    return [_pool_json(ctx, pool) for pool in ctx.config.resource_pools if pool.offers]


def pool(ctx: Context, name: str) -> dict[str, Any]:
    """Return a pool with the usual length of its starts and the age of its machine image."""
    shown = _pool_json(ctx, _require_rented_pool(ctx, name))
    with ctx.db.autocommit() as tx:
        return {
            **shown,
            "image": starts.image_of_pool(ctx, tx, name),
            "startPhases": starts.of_pool(ctx, tx, name),
        }


def _require_rented_pool(ctx: Context, name: str) -> Pool:
    settings = ctx.config.pool(name)
    if settings is None or not settings.offers:
        raise Missing(_no_such_pool(ctx, name))
    return settings


def _no_such_pool(ctx: Context, name: str) -> str:
    names = ", ".join(p.pool_name for p in ctx.config.resource_pools if p.offers) or "none"
    if ctx.config.pool(name) is None:
        every = ", ".join(p.pool_name for p in ctx.config.resource_pools)
        return f"resource pool '{name}' not found; this cluster has: {every}"
    return f"pool '{name}' rents no machines; the pools that do: {names}"


def _pool_json(ctx: Context, pool: Pool) -> dict[str, Any]:
    now, name = ctx.now(), pool.pool_name
    with ctx.db.autocommit() as tx:
        pool_hold = machine_views.holds(tx, now).get(name)
        spent = budgets.spent_of_pools(tx, now).get(name)
        cooldowns = machine_views.cooldowns_now(tx, now)
        live = provision.machines_of(tx, name)
        demand = provision.demand(tx, name, pool.scheduler.default_priority)
        waiting = machine_views.waiting(tx, name)
        knowledge, problems = market.known(tx), market.problems(tx)
        warm = warm_pools.shown(tx, name, now) if pool.limits.warm_policy else None
        spells, startup_h = spot_spells.every(tx), deadlines.startup_h(tx, name)
    limits = pool.limits
    return {
        "name": name,
        "hold": pool_hold,
        "spentBudget": spent_sentence(spent) if spent else "",
        "minInstances": limits.min_instances,
        "maxInstances": limits.max_instances,
        "warmInstances": warm.machines if warm else limits.warm_instances,
        "warm": _warm(limits.warm_policy, warm),
        "allowHeterogeneousFits": limits.allow_heterogeneous_fits,
        "maxHourlyCost": None if limits.max_hourly_cost is None else float(limits.max_hourly_cost),
        "instances": len(live),
        "priceUsdHour": float(sum(m.offer.price_usd_hour for m in live)),
        "queued": len(demand),
        "queuedSlots": sum(one.demand.slots for one in demand),
        "offers": [
            _offer(offer, pool, knowledge) | _history(offer, spells, now.timestamp())
            for offer in pool.offers
        ],
        "startupHours": startup_h,
        "priceListOf": catalog.LIST_OF,
        "priceProblems": _problems(pool, problems),
        "cooldowns": [c for c in cooldowns if _concerns(c, pool)],
        "waiting": waiting,
    }  # fmt: skip


def _warm(policy: WarmPolicy | None, warm: ShownWarmPool | None) -> dict[str, Any] | None:
    """Show how a pool chooses the number of its warm machines. Return None for a fixed number."""
    if policy is None:
        return None
    return {
        "reason": warm.sentence if warm else "no machine is kept warm: no decision yet",
        "spentTodayUsd": warm.spent_usd if warm else 0.0,
        "maxCostPerDay": policy.max_usd_day,
        "waitingCostPerHour": policy.waiting_usd_hour,
    }


def _offer(list_offer: Offer, pool: Pool, knowledge: MarketKnowledge) -> dict[str, Any]:
    """Show an offer with its price now, and where that is from."""
    (offer,) = current((list_offer,), pool.sections, knowledge)
    quote = quote_of(list_offer, pool.sections, knowledge)
    source = "cloud" if quote else "list"
    if is_own_price(list_offer, pool.sections):
        source = "instance_price"
    return {
        "provider": offer.provider, "region": offer.region, "zone": offer.zone, "machineType": offer.machine_type,
        "capacity": offer.capacity.value, "slots": offer.slots, **_hardware(offer, pool),
        "priceUsdHour": float(offer.price_usd_hour),
        "priceFrom": source, "priceReadAt": _moment(quote.read_at if quote else None),
        "priceSince": _moment(quote.since if quote else None), "isOffered": not offer.is_absent,
        "maxPriceUsdHour": None if offer.max_price_usd_hour is None else float(offer.max_price_usd_hour),
    }  # fmt: skip


def _history(offer: Offer, spells: Mapping[Scope, SpotSpell], now: float) -> dict[str, Any]:
    """Return the current spell of a spot offer, and the ends of its earlier spells."""
    if offer.capacity is not Capacity.SPOT:
        return {}
    spell = spell_of(spells, offer, now)
    known = spell.offer(str(offer), 0.0, spell.is_available, now)
    return {
        "spotHistory": {
            "isAvailable": spell.is_available, "ageHours": known.age_h,
            "losses": spell.available.seen, "expectedLosses": spell.available.expected,
            "returns": spell.unavailable.seen, "expectedReturns": spell.unavailable.expected,
        }
    }  # fmt: skip


def _hardware(offer: Offer, pool: Pool) -> dict[str, Any]:
    """Return the GPU, memory and processors of an offer's type, or nothing if the catalog does not have the type."""
    types = (priced.type for priced in pool.sections[offer.section].types if priced.type.vcpus)
    machine_type = next((type for type in types if type.name == offer.machine_type), None)
    return {
        "gpu": machine_type.accelerator if machine_type else None,
        "gpuMemoryGib": machine_type.accelerator_memory_gib if machine_type else None,
        "vcpus": machine_type.vcpus if machine_type else None,
        "memoryGib": machine_type.memory_gib if machine_type else None,
    }  # fmt: skip


def _moment(time: float | None) -> str | None:
    return None if time is None else datetime.fromtimestamp(time, timezone.utc).isoformat()


def _problems(pool: Pool, problems: Mapping[tuple[str, str], str]) -> list[dict[str, str]]:
    """Return the reason why prices of the pool's regions come from the product's list."""
    places = sorted({(offer.provider, offer.region) for offer in pool.offers})
    return [
        {"provider": provider, "region": region, "problem": problems[provider, region]}
        for provider, region in places
        if (provider, region) in problems
    ]


def _concerns(cooldown: dict[str, Any], pool: Pool) -> bool:
    names = ("provider", "region", "zone", "machineType", "capacity")
    scope = Scope(*(cooldown[name] for name in names))
    is_ours = cooldown["pool"] in ("", pool.pool_name)
    return is_ours and any(scope.covers(offer) for offer in pool.offers)


def hold(ctx: Context, caller: User, name: str, reason: str) -> dict[str, Any]:
    """Stop launches of a pool until it is resumed. Running machines continue."""
    require_right(caller, Right.UPDATE_AGENTS, "hold pools")
    _require_rented_pool(ctx, name)
    sentence = f"held by {caller.username}" + (f": {reason}" if reason else "")
    with change(ctx) as changed:
        pool_holds.hold(changed.tx, name, sentence, changed.now)
        changed.queue_changed(name)
    return pool(ctx, name)


def resume(ctx: Context, caller: User, name: str) -> dict[str, Any]:
    """Lift the hold of a pool. Forget refusals of its offers and failed joins."""
    require_right(caller, Right.UPDATE_AGENTS, "resume pools")
    rented = _require_rented_pool(ctx, name)
    with change(ctx) as changed:
        pool_holds.release(changed.tx, name)
        pool_holds.resumed(changed.tx, name, changed.now)
        all_cooldowns = failed_offers.stored_cooldowns(changed.tx)
        own = {
            c
            for c in all_cooldowns
            if c.pool in ("", name) and any(c.scope.covers(o) for o in rented.offers)
        }
        failed_offers.forget_cooldowns(changed.tx, own)
        changed.queue_changed(name)
    return pool(ctx, name)
