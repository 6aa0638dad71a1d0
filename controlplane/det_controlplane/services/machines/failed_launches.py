"""Remember launches that failed: refusals of clouds, and machines that never join."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from det_controlplane.core.provision.cooldown import after_refusal
from det_controlplane.core.provision.model import RefusalKind, TerminateReason
from det_controlplane.core.provision.offers import Scope
from det_controlplane.core.provision.sightings import Row
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.machines import failed_offers, machines, pool_holds
from det_controlplane.db.machines.machines import Requested
from det_controlplane.db.machines.pool_holds import PastHold
from det_controlplane.ports.compute import CloudMachine, LaunchOutcome, Refusal
from det_controlplane.services.machines import spot_history
from det_controlplane.services.use_case import Change

# If several machines in a row do not join, the image or the network is at fault, so renting more does not help.
NO_SHOWS_TO_HOLD = 3
FIRST_HOLD = timedelta(minutes=15)
LONGEST_HOLD = timedelta(hours=4)
# The reasons for terminating such machines; others end by themselves.
NO_SHOW_REASONS: Mapping[TerminateReason, str] = {
    TerminateReason.NEVER_REGISTERED: "its agent did not join within max_agent_starting_period",
    TerminateReason.STOPPED: "its cloud stopped it",
}
ENDED_ALONE = "it ended before its agent joined"
# No fault of the machine, and no reason to hold its pool.
TAKEN_BACK = "its cloud took it back before its agent joined"


def remember_refusals(tx: Tx, requested: Requested, outcome: LaunchOutcome, now: datetime) -> None:
    """Store refusals. An invalid request concerns the pool's section; other refusals concern every pool."""
    current = {(c.scope, c.pool): c for c in failed_offers.stored_cooldowns(tx)}
    refused = {}
    for r in outcome.refusals_of(requested.offers):
        key = r.scope, requested.pool if r.kind is RefusalKind.INVALID else ""
        refused[key] = current[key] = after_refusal(
            current.get(key),
            r.kind,
            r.scope,
            r.sentence,
            now.timestamp(),
            key[1],
            r.hint,
            r.passing,
        )
    failed_offers.store_cooldowns(tx, list(refused.values()), now)
    full = [
        r.scope for r in outcome.refusals_of(requested.offers) if r.kind is RefusalKind.NO_CAPACITY
    ]
    spot_history.refused(tx, [o for o in requested.offers if any(s.covers(o) for s in full)], now)


def record_reclaimed_offer(tx: Tx, requested: Requested, sentence: str, now: datetime) -> None:
    """Skip an offer for a while after its machine was reclaimed before its agent joined: the cloud has no capacity."""
    scope = Scope.of(requested.offers[0])
    refusal = Refusal(RefusalKind.NO_CAPACITY, scope, sentence)
    remember_refusals(tx, requested, LaunchOutcome(None, (refusal,)), now)


def record_unordered_end(
    changed: Change, rows: Sequence[Row], gone: Collection[UUID], listed: Sequence[CloudMachine]
) -> Mapping[UUID, CloudMachine]:
    """Record machines that ended without an order before they joined. Return them by their rows.

    `listed` distinguishes them from accepted launches that the cloud had no capacity for."""
    ended = {m.cloud_id: m for m in listed if m.state == "gone"}
    by_row = {r.id: ended[r.cloud_id] for r in rows if r.id in gone and r.cloud_id in ended}
    for id, machine in by_row.items():
        if machine.taken_back:
            failed_offers.record_reclaimed_machine(changed.tx, id, changed.now)
    requests = machines.requests(changed.tx, by_row)
    return {r.id: by_row[r.id] for r in requests if record_no_show(changed, r, by_row[r.id])}


def record_no_show(changed: Change, requested: Requested, machine: CloudMachine) -> bool:
    """Record why a machine ended that did not join; return False where that is known, or its end was ordered."""
    sentence = TAKEN_BACK if machine.taken_back else ENDED_ALONE
    cause = f": {machine.ended_because}" if machine.ended_because else ""
    pool = machines.record_unordered_end(
        changed.tx, requested.id, sentence + cause, no_show=not machine.taken_back
    )
    if pool is None:
        return False
    if machine.taken_back:
        failed_offers.record_reclaimed_machine(changed.tx, requested.id, changed.now)
        record_reclaimed_offer(changed.tx, requested, sentence + cause, changed.now)
    else:
        hold_pool_after_failed_launches(changed, pool)
    return True


def hold_pool_after_failed_launches(changed: Change, pool: str) -> bool:
    """Hold a pool after a series of machines that did not join. Return whether it is held now."""
    in_a_row = machines.no_shows(changed.tx, pool, NO_SHOWS_TO_HOLD + 1)
    if in_a_row < NO_SHOWS_TO_HOLD:
        return False
    earlier = pool_holds.last(changed.tx, pool)
    if earlier is not None and earlier.lasts_at(changed.now):
        return True  # machines rented before the hold do not count again
    sentence = (
        f"the last {NO_SHOWS_TO_HOLD} machines did not join; `det instance list --all` names them,"
        " and `det instance describe ID` shows the end of their console"
    )
    again = earlier if in_a_row > NO_SHOWS_TO_HOLD else None
    until = changed.now + _length_after(again)
    pool_holds.hold(changed.tx, pool, sentence, changed.now, until=until)
    changed.queue_changed(pool)  # recompute the reasons of waiting work
    return True


def _length_after(earlier: PastHold | None) -> timedelta:
    """Return the duration of a hold. It doubles with each failed attempt, so that a loop does not spend money."""
    if earlier is None or earlier.until is None or earlier.by_operator:
        return FIRST_HOLD
    return min(2 * (earlier.until - earlier.held_at), LONGEST_HOLD)
