"""Record when spot offers are available, from launches, refusals, reclaims and running machines."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.provision.model import PoolSnapshot
from det_controlplane.core.provision.offers import Capacity, Offer, Scope
from det_controlplane.core.provision.spot_history import (
    SpotSpell,
    after_observation,
    is_of,
    observed_spells,
)
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.machines import spot_spells

_RUNNING = (MachineState.LAUNCHED, MachineState.REGISTERED)


def launched(tx: Tx, requested: Sequence[Offer], rented: Offer, now: datetime) -> None:
    """Record that an offer gave a machine."""
    _record(tx, (offer for offer in requested if is_of(rented, offer)), True, now)


def refused(tx: Tx, offers: Iterable[Offer], now: datetime) -> None:
    """Record that offers had no capacity."""
    _record(tx, offers, False, now)


def _record(tx: Tx, offers: Iterable[Offer], is_available: bool, now: datetime) -> None:
    scopes = {Scope.of(offer) for offer in offers if offer.capacity is Capacity.SPOT}
    if scopes:
        spells = spot_spells.every(tx)
        time = now.timestamp()
        spot_spells.store(
            tx,
            {scope: after_observation(spells.get(scope), is_available, time) for scope in scopes},
        )


def observed(
    tx: Tx, pools: Sequence[PoolSnapshot], reclaims: Sequence[tuple[Scope, float]], now: datetime
) -> Mapping[Scope, SpotSpell]:
    """Return the spells of all offers after the reclaims and with the machines of the pools, and store the changes."""
    spells = spot_spells.every(tx)
    running = [
        machine.offer
        for pool in pools
        for machine in pool.machines
        if machine.state in _RUNNING and machine.leaving_since is None
    ]
    offers = [offer for pool in pools for offer in pool.offers]
    changed = observed_spells(offers, running, reclaims, spells, now.timestamp())
    if changed:
        spot_spells.store(tx, changed)
        spot_spells.forget_old(tx, now)
    return spells | changed
