"""Machines that never join: remember them, and rent nothing more for a while when one follows the other."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from det_controlplane.core.provision.model import TerminateReason
from det_controlplane.core.provision.sightings import Row
from det_controlplane.db.machines import interruptions, machines, pool_holds
from det_controlplane.db.machines.machines import Requested
from det_controlplane.db.machines.pool_holds import PastHold
from det_controlplane.ports.compute import CloudMachine
from det_controlplane.services.machines import refusals
from det_controlplane.services.use_case import Change

# Machines that do not join one after the other are a fault of the image or the network: renting more is in vain.
NO_SHOWS_TO_HOLD = 3
FIRST_HOLD = timedelta(minutes=15)
LONGEST_HOLD = timedelta(hours=4)
# Why such machines were given back; others end by themselves.
REASONS: Mapping[TerminateReason, str] = {
    TerminateReason.NEVER_REGISTERED: "its agent did not join within max_agent_starting_period",
    TerminateReason.STOPPED: "its cloud stopped it",
}
ENDED_ALONE = "it ended before its agent joined"
# No fault of the machine, and no reason to hold its pool.
TAKEN_BACK = "its cloud took it back before its agent joined"


def ended_alone(
    changed: Change, rows: Sequence[Row], gone: Collection[UUID], listed: Sequence[CloudMachine]
) -> Mapping[UUID, CloudMachine]:
    """Record machines that ended before they joined though nobody ordered it; returns them by their rows.

    `listed` tells them from launches that a cloud accepted and had no room for."""
    ended = {m.cloud_id: m for m in listed if m.state == "gone"}
    known = {r.id: ended[r.cloud_id] for r in rows if r.id in gone and r.cloud_id in ended}
    for id, machine in known.items():
        if machine.taken_back:
            interruptions.of_machine(changed.tx, id, changed.now)
    requests = machines.requests(changed.tx, known)
    return {r.id: known[r.id] for r in requests if record(changed, r, known[r.id])}


def record(changed: Change, requested: Requested, machine: CloudMachine) -> bool:
    """Record why a machine ended that did not join; return False where that is known, or its end was ordered."""
    sentence = TAKEN_BACK if machine.taken_back else ENDED_ALONE
    said = f": {machine.ended_because}" if machine.ended_because else ""
    pool = machines.ended_alone(
        changed.tx, requested.id, sentence + said, no_show=not machine.taken_back
    )
    if pool is None:
        return False
    if machine.taken_back:
        interruptions.of_machine(changed.tx, requested.id, changed.now)
        refusals.remember_taken_back(changed.tx, requested, sentence + said, changed.now)
    else:
        hold_if_in_vain(changed, pool)
    return True


def hold_if_in_vain(changed: Change, pool: str) -> bool:
    """Hold a pool whose last machines did not join, one after the other; returns whether it is held now."""
    in_a_row = machines.no_shows(changed.tx, pool, NO_SHOWS_TO_HOLD + 1)
    if in_a_row < NO_SHOWS_TO_HOLD:
        return False
    earlier = pool_holds.last(changed.tx, pool)
    if earlier is not None and earlier.lasts_at(changed.now):
        return True  # what was rented before it says nothing new
    sentence = (
        f"the last {NO_SHOWS_TO_HOLD} machines did not join; `det instance list --all` names them,"
        " and `det instance describe ID` shows the end of their console"
    )
    again = earlier if in_a_row > NO_SHOWS_TO_HOLD else None
    until = changed.now + _length_after(again)
    pool_holds.hold(changed.tx, pool, sentence, changed.now, until=until)
    changed.queue_changed(pool)  # what waits learns of it
    return True


def _length_after(earlier: PastHold | None) -> timedelta:
    """Return how long to hold a pool; each try that was in vain doubles it, so that no money is spent in a loop."""
    if earlier is None or earlier.until is None or earlier.by_operator:
        return FIRST_HOLD
    return min(2 * (earlier.until - earlier.held_at), LONGEST_HOLD)
