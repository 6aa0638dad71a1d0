"""Send messages of webhooks at least once, with growing delays while a target does not answer."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from det_controlplane.core.problems import Problem
from det_controlplane.core.webhooks import message
from det_controlplane.db.cluster import outbox, webhooks
from det_controlplane.db.cluster.outbox import Effect
from det_controlplane.db.cluster.webhooks import Delivery, Target
from det_controlplane.ports.cipher import CannotOpen
from det_controlplane.ports.courier import Unsent
from det_controlplane.services.context import Context
from det_controlplane.services.webhooks import addresses

log = logging.getLogger("det.webhooks")

# Half an hour after the first try.
MOST_ATTEMPTS = 8
_AT_ONCE = 20


def run(ctx: Context) -> float | None:
    """Send due messages. Return the seconds until the next one is due, or None."""
    with ctx.db.begin() as tx:
        due = [effect for _ in range(_AT_ONCE) if (effect := webhooks.due(tx, ctx.now()))]
    if due:
        with ThreadPoolExecutor(len(due), "webhook") as threads:
            for effect, ended in zip(due, threads.map(lambda e: _send(ctx, e), due), strict=True):
                if ended:
                    with ctx.db.begin() as tx:
                        outbox.remove(tx, effect.id)
    with ctx.db.begin() as tx:
        next_due = webhooks.next_due(tx)
    return None if next_due is None else max(0.0, (next_due - ctx.now()).total_seconds())


def send_now(ctx: Context, target: Target, payload: dict[str, Any]) -> None:
    """Send a message in this thread. Raises Unsent."""
    settings = ctx.config.webhooks
    request = message(
        target.type,
        payload,
        base_url=settings.base_url or ctx.host.public_url,
        signing_key=settings.signing_key,
        now_s=int(ctx.now().timestamp()),
    )
    try:
        url = addresses.unsealed(ctx, target.url, target.sealed)
    except CannotOpen as e:
        raise Unsent(f"its address cannot be read: {e}") from e
    ctx.courier.post(url, request.body, request.headers)


def target_problems(ctx: Context, url: str) -> list[Problem]:
    """Look where an address leads: one without an answer may have one later, a private one is refused."""
    try:
        ctx.courier.check(url)
    except Unsent as e:
        return [Problem("url", str(e))] if e.forever else []
    return []


def _send(ctx: Context, effect: Effect) -> bool:
    """Return whether the message need not be tried again."""
    webhook_id = effect.payload["webhook_id"]
    with ctx.db.begin() as tx:
        target = webhooks.target(tx, webhook_id)
    if target is None:
        return True  # deleted meanwhile
    try:
        send_now(ctx, target, effect.payload)
    except Unsent as e:
        lost = e.forever or effect.attempts >= MOST_ATTEMPTS
        then = "gave up" if lost else "will retry"
        log.warning(
            "webhook %d (%s): delivery failed (attempt %d, %s): %s",
            webhook_id, target.name, effect.attempts, then, e,
        )  # fmt: skip
        delivery = _delivery(ctx, effect, str(e), again_at=None if lost else effect.again_at)
        _note_failure(ctx, webhook_id, delivery, f"attempt {effect.attempts}, {then}: {e}")
        return lost
    except Exception:
        log.exception(
            "webhook %d (%s) failed at attempt %d", webhook_id, target.name, effect.attempts
        )
        lost = effect.attempts >= MOST_ATTEMPTS
        why = "see the log of the cluster"
        delivery = _delivery(ctx, effect, why, again_at=None if lost else effect.again_at)
        _note_failure(ctx, webhook_id, delivery, f"attempt {effect.attempts}: {why}")
        return lost
    with ctx.db.begin() as tx:
        webhooks.note_arrival(tx, webhook_id, _delivery(ctx, effect))
    return True


def _delivery(
    ctx: Context, effect: Effect, failure: str | None = None, *, again_at: datetime | None = None
) -> Delivery:
    event, about = effect.payload["event"], effect.payload.get("experiment") or {}
    return Delivery(
        ctx.now(), event["event_id"], event["event_type"], about.get("id"), effect.attempts, failure, again_at
    )  # fmt: skip


def _note_failure(ctx: Context, webhook_id: int, delivery: Delivery, why: str) -> None:
    with ctx.db.begin() as tx:
        webhooks.note_failure(tx, webhook_id, delivery, why)
