"""Remember what clouds refused: offers are left alone for a while."""

from datetime import datetime

from det_controlplane.core.provision.cooldown import after_refusal
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Scope
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.machines import cooldowns
from det_controlplane.db.machines.machines import Requested
from det_controlplane.ports.compute import LaunchOutcome, Refusal


def remember(tx: Tx, requested: Requested, outcome: LaunchOutcome, now: datetime) -> None:
    """Store refusals. What is invalid is a matter of the pool's section, the rest concerns every pool."""
    known = {(c.scope, c.pool): c for c in cooldowns.every(tx)}
    refused = {}
    for r in outcome.refusals_of(requested.offers):
        key = r.scope, requested.pool if r.kind is RefusalKind.INVALID else ""
        refused[key] = known[key] = after_refusal(
            known.get(key), r.kind, r.scope, r.sentence, now.timestamp(), key[1], r.hint, r.passing
        )
    cooldowns.put(tx, list(refused.values()), now)


def remember_taken_back(tx: Tx, requested: Requested, sentence: str, now: datetime) -> None:
    """Leave an offer alone that was taken back before its agent joined: its cloud has no room for it."""
    scope = Scope.of(requested.offers[0])
    refusal = Refusal(RefusalKind.NO_CAPACITY, scope, sentence)
    remember(tx, requested, LaunchOutcome(None, (refusal,)), now)
