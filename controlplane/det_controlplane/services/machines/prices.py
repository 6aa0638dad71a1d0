"""Ask clouds for types and prices, and apply the answers to the offers of pools."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from det_controlplane.core.provision.offers import Offer
from det_controlplane.core.provision.prices import WantedType, quote_of, wanted_of
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.machines import market
from det_controlplane.db.machines.market import NewPrice
from det_controlplane.ports.compute import Market, MarketAnswer, Unreachable
from det_controlplane.services.context import Context
from det_controlplane.services.machines.places import place_of, rented_pools
from det_controlplane.services.use_case import change

log = logging.getLogger("det.machines")

# Spot prices of a zone change some times a day, list prices some times a year.
INTERVAL = timedelta(minutes=30)
RETRY = timedelta(minutes=10)  # after no answer, or while another process asks

Markets = Mapping[str, Market]


def refresh(ctx: Context, markets: Markets) -> None:
    """Ask about every region that is due; one process asks, and the pools are decided on again."""
    for (provider, region), types in sorted(_types_by_region(ctx).items()):
        source = markets.get(provider)
        if source is None:
            continue
        with ctx.db.begin() as tx:
            now = ctx.now()
            if not market.claim(tx, provider, region, now, now + RETRY):
                continue
        try:
            answer = source.read(place_of(ctx, provider, region), sorted(types))
        except Unreachable as e:
            log.warning("%s in %s does not tell its prices: %s", provider, region, e)
            with ctx.db.begin() as tx:
                market.failed(tx, provider, region, str(e))
        else:
            _store(ctx, provider, region, answer)
        _decide_again(ctx, provider, region)


def at_launch(ctx: Context, tx: Tx, pool_name: str, offer: Offer, asked: Offer) -> Offer:
    """Return the offer of a machine with the price of the zone that its cloud chose."""
    pool = ctx.config.pool(pool_name)
    if asked.zone or pool is None:
        return offer
    quote = quote_of(offer, pool.sections, market.known(tx))
    return offer if quote is None else replace(offer, price_usd_hour=quote.usd_hour)


def _types_by_region(ctx: Context) -> dict[tuple[str, str], set[WantedType]]:
    """Return the types that pools name, by provider and region."""
    types: dict[tuple[str, str], set[WantedType]] = {}
    for pool in rented_pools(ctx):
        for offer in pool.offers:
            machine_type = wanted_of(offer, pool.sections)
            types.setdefault((offer.provider, offer.region), set()).add(machine_type)
    return types


def _store(ctx: Context, provider: str, region: str, answer: MarketAnswer) -> None:
    prices = [
        NewPrice(p.scope.zone, p.scope.machine_type, p.scope.capacity, p.usd_hour, p.since)
        for p in answer.prices
        if p.usd_hour > 0
    ]
    if answer.problem:
        log.warning("%s in %s: %s", provider, region, answer.problem)
    with ctx.db.begin() as tx:
        now = ctx.now()
        due_at = now + INTERVAL
        market.store(tx, provider, region, prices, answer.types, answer.problem, now, due_at)


def _decide_again(ctx: Context, provider: str, region: str) -> None:
    with change(ctx) as changed:
        for pool in rented_pools(ctx):
            if any((o.provider, o.region) == (provider, region) for o in pool.offers):
                changed.queue_changed(pool.pool_name)
