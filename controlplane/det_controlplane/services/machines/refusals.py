"""Remember refusals of clouds, so that refused offers are not tried for a while."""

from datetime import datetime

from det_controlplane.core.provision.cooldown import after_refusal
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Scope
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.machines import cooldowns
from det_controlplane.db.machines.machines import Requested
from det_controlplane.ports.compute import LaunchOutcome, Refusal


def remember(tx: Tx, requested: Requested, outcome: LaunchOutcome, now: datetime) -> None:
    """Store refusals. An invalid request concerns the pool's section; other refusals concern every pool."""
    current = {(c.scope, c.pool): c for c in cooldowns.every(tx)}
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
    cooldowns.put(tx, list(refused.values()), now)


def record_reclaimed_offer(tx: Tx, requested: Requested, sentence: str, now: datetime) -> None:
    """Skip an offer for a while after its machine was reclaimed before its agent joined: the cloud has no capacity."""
    scope = Scope.of(requested.offers[0])
    refusal = Refusal(RefusalKind.NO_CAPACITY, scope, sentence)
    remember(tx, requested, LaunchOutcome(None, (refusal,)), now)
