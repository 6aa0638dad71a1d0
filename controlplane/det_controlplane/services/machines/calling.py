"""Call the clouds: launch requested machines, terminate ordered ones, compare rows with the machines that clouds
list.

No call is made inside a transaction: claim a row, call the cloud, store the answer. If the process dies in between,
another process repeats the call with the same token.
"""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from det_controlplane.core.json_log import log_ids
from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.provision.boot import agent_options, user_data
from det_controlplane.core.provision.cooldown import after_success
from det_controlplane.core.provision.gang import Gang
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Offer, Scope
from det_controlplane.core.provision.sightings import Sighting, reconcile
from det_controlplane.db.agents import agents, lost_runs
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.machines import failed_offers, machines
from det_controlplane.db.machines import gangs as db_gangs
from det_controlplane.db.machines.machines import OrderedEnd, Requested
from det_controlplane.ports.compute import (
    CloudMachine,
    Compute,
    LaunchOutcome,
    LaunchRequest,
    Place,
    Refusal,
    Unreachable,
)
from det_controlplane.services import stored_pools
from det_controlplane.services.context import Context
from det_controlplane.services.machines import boot, failed_launches, gangs, prices, spot_history
from det_controlplane.services.machines.places import place_of, rented_pools
from det_controlplane.services.machines.prices import Markets
from det_controlplane.services.use_case import change

log = logging.getLogger("det.machines")

CLAIM = timedelta(minutes=2)  # longer than any call takes
PAUSE_AFTER_SILENCE = timedelta(seconds=15)
LONGEST_SILENCE = timedelta(minutes=5)  # of a cloud about a machine that could be rented elsewhere
LISTING_INTERVAL_S = 30.0  # while machines exist
ENDING_INTERVAL_S = (
    5.0  # while some are ending: until they are seen to be gone, they count and cost
)
AT_ONCE = 8  # calls to clouds
CONSOLE_KEPT = 8000  # characters, the last ones

Clouds = Mapping[str, Compute]
_NO_MARKETS: Markets = {}


def run(ctx: Context, clouds: Clouds, markets: Markets = _NO_MARKETS) -> float | None:
    """Make one pass of all calls. Return the seconds until the next pass, or None if no work is left."""
    ctx = stored_pools.current(ctx)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="cloud") as pool:
        while requested := _claim(ctx):
            for wave in gangs.waves(requested):
                list(pool.map(lambda r: _rent_logged(ctx, clouds, r), wave))
    _end_ordered(ctx, clouds)
    compared = [_compare(ctx, clouds, *place) for place in sorted(_regions(ctx))]
    prices.refresh(ctx, markets)
    due_s = _next_s(ctx)
    return LISTING_INTERVAL_S if due_s is None and not all(compared) else due_s


def _claim(ctx: Context) -> list[Requested]:
    """Take the next requested machines for this process, no more than it asks for at once."""
    claimed: list[Requested] = []
    with ctx.db.begin() as tx:
        while len(claimed) < AT_ONCE:
            request = machines.claim_request(tx, ctx.now(), CLAIM)
            if request is None:
                break
            claimed.append(request)
    return claimed


def _rent_logged(ctx: Context, clouds: Clouds, requested: Requested) -> None:
    with log_ids(machine_id=requested.id, pool=requested.pool):
        _rent(ctx, clouds, requested)


def _rent(ctx: Context, clouds: Clouds, requested: Requested) -> None:
    cloud = clouds.get(requested.provider)
    if cloud is None:
        providers = ", ".join(sorted(clouds)) or "none"
        sentence = f"this process has no provisioner for {requested.provider}; it has: {providers}"
        return _store(
            ctx,
            requested,
            LaunchOutcome(
                None, (Refusal(RefusalKind.INVALID, Scope(requested.provider), sentence),)
            ),
            None,
        )
    if not _is_configured(ctx, requested):
        return _withdraw(ctx, requested)
    request = _request(ctx, requested)
    try:
        outcome = cloud.launch(request)
    except Unreachable as e:
        log.warning("%s does not answer about %s: %s", requested.provider, requested.id, e)
        if not _give_up(ctx, requested, e):
            _ask_again(ctx, requested, e)
    else:
        _store(ctx, requested, outcome, request.gang)


def _store(ctx: Context, requested: Requested, outcome: LaunchOutcome, gang: Gang | None) -> None:
    """Record the answer, remember refusals, and have the pool decided on again where no machine came."""
    with change(ctx) as changed:
        tx, now = changed.tx, changed.now
        failed_launches.remember_refusals(tx, requested, outcome, now)
        changed.queue_changed(requested.pool)
        changed.wake("provision")
        if outcome.machine is not None:
            machine = outcome.machine
            offer = _rented(ctx, tx, requested, machine)
            all_cooldowns = failed_offers.stored_cooldowns(tx)
            over = set(all_cooldowns) - set(after_success(all_cooldowns, offer, requested.pool))
            failed_offers.forget_cooldowns(tx, over)
            placement = gangs.placement_of(machine, outcome, gang)
            machines.launched(tx, requested.id, offer, machine.cloud_id, now, placement)
            spot_history.launched(tx, requested.offers, offer, now)
            log.info("%s is %s %s", requested.id, machine.cloud_id, offer)
            return
        sentence = "; ".join(dict.fromkeys(r.sentence for r in outcome.refusals)) or "refused"
        machines.refused(tx, requested.id, sentence, now)
        log.warning("%s was refused: %s", requested.id, sentence)


def _ask_again(ctx: Context, requested: Requested, silence: Unreachable) -> None:
    cloud = requested.provider
    sentence = f"{cloud} does not answer, and is asked again every few seconds: {silence}"
    with change(ctx) as changed:
        at = changed.now + PAUSE_AFTER_SILENCE
        if machines.retry_request(changed.tx, requested.id, at, sentence):
            changed.queue_changed(requested.pool)  # recompute the reasons of waiting work


def _give_up(ctx: Context, requested: Requested, silence: Unreachable) -> bool:
    """Leave a region alone that has been silent for minutes, where the pool may rent elsewhere; return whether it did.

    A machine that an unanswered call brought is found by its tag when the region answers, and ended."""
    pool = ctx.config.pool(requested.pool)
    region = Scope(requested.provider, requested.offers[0].region)
    if pool is None or all(region.covers(offer) for offer in pool.offers):
        return False
    with change(ctx) as changed:
        if changed.now - requested.requested_at < LONGEST_SILENCE:
            return False
        minutes = LONGEST_SILENCE.total_seconds() / 60
        sentence = f"{region.provider} in {region.region} has not answered for {minutes:g} minutes: {silence}"
        if not machines.cancel(changed.tx, requested.id, sentence, changed.now):
            return False
        refusal = Refusal(RefusalKind.NO_CAPACITY, region, sentence)
        failed_launches.remember_refusals(
            changed.tx, requested, LaunchOutcome(None, (refusal,)), changed.now
        )
        changed.queue_changed(requested.pool)
    return True


def _is_configured(ctx: Context, requested: Requested) -> bool:
    """Return whether the section is there that the machine was asked for: a restart may have brought other ones."""
    pool = ctx.config.pool(requested.pool)
    sections = pool.sections if pool else ()
    return any(
        number == requested.section and section.provider == requested.provider
        for number, section in enumerate(sections)
    )


def _withdraw(ctx: Context, requested: Requested) -> None:
    """Ask for the machine no more, and order the end of one that an earlier call brought."""
    with change(ctx) as changed:
        sentence = "the pool's section that it was asked for is not configured any more"
        machines.terminate(changed.tx, requested.id, sentence, changed.now)
        changed.queue_changed(requested.pool)
    log.warning("%s is not asked for: %s", requested.id, sentence)


def _request(ctx: Context, requested: Requested) -> LaunchRequest:
    gang, facts = gangs.of_request(ctx, requested), boot.of_machine(ctx, requested)
    return LaunchRequest(
        cluster_id=ctx.cluster_id,
        pool=requested.pool,
        machine_id=requested.id,
        attempt=requested.attempt,
        offers=gang.ordered(requested.offers) if gang else requested.offers,
        gang=gang,
        settings=ctx.config.section_settings(requested.pool, requested.section),
        user_data=user_data(facts),
        agent_options=agent_options(facts),
    )


def _ask_failure_reason(ctx: Context, cloud: Compute, requested: Requested) -> None:
    """Repeat the launch of a machine that ended before it joined. The cloud answers the same token with the reason."""
    try:
        outcome = cloud.launch(_request(ctx, requested))
    except Unreachable as e:
        log.warning("%s does not say what became of %s: %s", cloud.provider, requested.id, e)
        return
    with change(ctx) as changed:
        if outcome.machine is None:
            failed_launches.remember_refusals(changed.tx, requested, outcome, changed.now)
        elif outcome.machine.state == "gone":
            failed_launches.record_no_show(changed, requested, outcome.machine)
        changed.queue_changed(requested.pool)


def _rented(ctx: Context, tx: Tx, requested: Requested, machine: CloudMachine) -> Offer:
    """Return the offer that a machine is of, in the zone that it came to."""
    offers = requested.offers
    of_type = [o for o in offers if o.machine_type == machine.machine_type] or list(offers)
    requested_offer = next((o for o in of_type if o.zone in ("", machine.zone)), of_type[0])
    offer = replace(requested_offer, zone=machine.zone)
    return prices.at_launch(ctx, tx, requested.pool, offer, requested_offer)


def _end_ordered(ctx: Context, clouds: Clouds) -> None:
    with ctx.db.autocommit() as tx:
        ordered = machines.ordered_ends(tx)
    for provider in sorted({end.provider for end in ordered}):
        cloud = clouds.get(provider)
        mine = [end for end in ordered if end.provider == provider]
        if cloud is not None:
            for end in mine:
                if end.lacks_console:
                    _store_console(ctx, cloud, end.id, _machine(end))
            _terminate(cloud, [_machine(end) for end in mine])


def _store_console(ctx: Context, cloud: Compute, id: UUID, machine: CloudMachine) -> None:
    """Keep the last output of a machine that never joined: its cloud forgets it with the machine."""
    try:
        printed = cloud.console(machine, place_of(ctx, machine.provider, machine.region))
    except Unreachable as e:
        printed = f"{cloud.provider} did not tell what the machine printed: {e}"
    with ctx.db.begin() as tx:
        # A serial line carries anything; PostgreSQL's text does not take zeros.
        machines.set_console(tx, id, printed.replace("\0", "")[-CONSOLE_KEPT:])


def _terminate(cloud: Compute, machines: Sequence[CloudMachine]) -> None:
    try:
        for refusal in cloud.terminate(machines):
            log.error("%s does not end a machine: %s", cloud.provider, refusal.sentence)
    except Unreachable as e:
        log.warning("%s does not answer: %s", cloud.provider, e)


def _machine(end: OrderedEnd) -> CloudMachine:
    return CloudMachine(
        end.provider,
        end.region,
        end.zone,
        end.cloud_id,
        "running",
        machine_id=end.id,
        pool=end.pool,
    )


def _regions(ctx: Context) -> set[tuple[str, str]]:
    """Return where machines of the cluster may be: where rows say so, and wherever pools rent."""
    with ctx.db.autocommit() as tx:
        places = machines.places(tx)
    return places | {(o.provider, o.region) for pool in rented_pools(ctx) for o in pool.offers}


def _compare(ctx: Context, clouds: Clouds, provider: str, region: str) -> bool:
    """Compare rows with the machines that a cloud lists. Return whether every listed machine has a row.

    The cloud is asked before the database is read. A row exists before its machine, so a machine without a row is an
    orphan."""
    cloud = clouds.get(provider)
    if cloud is None:
        return True
    listed_at = ctx.now()
    try:
        listing = cloud.owned(
            ctx.cluster_id, _with_cloud_ids(ctx, provider, place_of(ctx, provider, region))
        )
    except Unreachable as e:
        log.warning("%s does not list its machines in %s: %s", provider, region, e)
        return True
    with change(ctx) as changed:
        tx, now = changed.tx, changed.now
        rows = machines.live_rows(tx, provider, region, listed_at)
        comparison = reconcile(rows, [_sighting(m) for m in listing])
        _adopt(ctx, tx, comparison.adopted, listing, now)
        machines.seen(tx, comparison.seen, comparison.stopped, now)
        machines.unseen(tx, comparison.absent)
        failed_joins = machines.never_joined(tx, comparison.gone)
        alone = failed_launches.record_unordered_end(changed, rows, comparison.gone, listing)
        for row in machines.end(tx, comparison.gone, now):
            changed.queue_changed(row.pool)
            if row.agent_id is not None:
                agents.give_up(tx, row.agent_id, now)
                lost_runs.stop_waiting_for(tx, row.agent_id)
        has_groups = db_gangs.any_in_group(tx, comparison.gone)
        for moved in machines.pools_of(tx, [*comparison.stopped, *comparison.adopted]):
            changed.queue_changed(moved.pool)
    for id, machine in alone.items():
        _store_console(ctx, cloud, id, machine)
    for requested in failed_joins:
        if _is_configured(ctx, requested):
            _ask_failure_reason(ctx, cloud, requested)
    orphans = {o.cloud_id for o in comparison.orphans}
    if orphans:
        log.warning(
            "%s in %s: terminating machines that the cluster did not request: %s",
            provider,
            region,
            sorted(orphans),
        )
        _terminate(cloud, [m for m in listing if m.cloud_id in orphans])
    is_tidy = not has_groups or _delete_groups(ctx, cloud, region, listing)
    # A lost order is repeated: the next list shows its effect.
    return is_tidy and not orphans


def _delete_groups(
    ctx: Context, cloud: Compute, region: str, listing: Sequence[CloudMachine]
) -> bool:
    """Delete placement groups without machines. Return whether no unused group is left."""
    in_use = {machine.group for machine in listing if machine.state != "gone"}
    place = _with_cloud_ids(ctx, cloud.provider, place_of(ctx, cloud.provider, region))
    try:
        return cloud.delete_groups(ctx.cluster_id, place, in_use)
    except Unreachable as e:
        log.warning("%s does not delete placement groups in %s: %s", cloud.provider, region, e)
        return True  # it is tried again after the end of the next machine


def _with_cloud_ids(ctx: Context, provider: str, place: Place) -> Place:
    """Add the cloud ids of known machines. They may be in an account or project that is not configured now."""
    with ctx.db.autocommit() as tx:
        return replace(place, cloud_ids=machines.cloud_ids(tx, provider, place.region))


def _adopt(
    ctx: Context,
    tx: Tx,
    adopted: Mapping[UUID, Sighting],
    listing: Sequence[CloudMachine],
    now: datetime,
) -> None:
    """Store machines of launches without an answer, with their offers and prices."""
    by_cloud_id = {machine.cloud_id: machine for machine in listing}
    for requested in machines.requests(tx, adopted):
        machine = by_cloud_id[adopted[requested.id].cloud_id]
        offer = _rented(ctx, tx, requested, machine)
        placement = gangs.placement_of(machine, None, None)
        machines.adopt(tx, requested.id, offer, machine.cloud_id, now, placement)


def _sighting(machine: CloudMachine) -> Sighting:
    return Sighting(
        machine.cloud_id,
        machine.machine_id,
        is_gone=machine.state == "gone",
        is_stopped=machine.state in ("stopped", "stopping"),
    )


def _next_s(ctx: Context) -> float | None:
    with ctx.db.autocommit() as tx:
        call, live = machines.next_call(tx), machines.any_live(tx)
        ending = machines.any_live(tx, MachineState.TERMINATING)
    if not live:
        return None
    listing_s = ENDING_INTERVAL_S if ending else LISTING_INTERVAL_S
    until_call = listing_s if call is None else (call - ctx.now()).total_seconds()
    return min(max(until_call, 0.0), listing_s)
