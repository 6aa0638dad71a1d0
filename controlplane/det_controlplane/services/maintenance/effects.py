"""Carry out the effects that were promised in transactions, at least once; each handler may be repeated."""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from det_controlplane.db.cluster import backups, outbox
from det_controlplane.db.cluster.outbox import Effect
from det_controlplane.db.schema.enums import EffectKind
from det_controlplane.services.checkpoints import collection
from det_controlplane.services.context import Context
from det_controlplane.services.errors import DeletionsHeld, Unfinished, Unready
from det_controlplane.services.experiments import deletion as experiment_deletion
from det_controlplane.services.maintenance import deletion, housekeeping

log = logging.getLogger("det.outbox")


def _after_experiment(ctx: Context, payload: dict[str, Any]) -> None:
    collection.after_experiment(ctx, payload)
    housekeeping.run_if_due(ctx)


def _delete_object(ctx: Context, payload: dict[str, Any]) -> None:
    """Delete a stored archive that no experiment or task needs any more."""
    with ctx.db.begin() as tx:
        on_hold = backups.deletions_are_held(tx)
    # A backup that begins now does not need the archive: the rows that named it were deleted before this effect.
    if on_hold:
        raise DeletionsHeld(f"archive {payload['key']}: a backup is being written")
    ctx.objects.delete(payload["key"])


_HANDLERS: dict[EffectKind, Callable[[Context, dict[str, Any]], None]] = {
    EffectKind.CHECKPOINT_GC: _after_experiment,
    EffectKind.DELETE_EXPERIMENT: experiment_deletion.experiments_effect,
    EffectKind.DELETE_OBJECT: _delete_object,
    EffectKind.DELETE_PROJECT: deletion.project_effect,
    EffectKind.DELETE_WORKSPACE: deletion.workspace_effect,
}
_AT_MOST = 100
# Scheduling waits for the effects of a tick. The next tick follows at once.
_LONGEST = timedelta(seconds=30)
# Experiments that are deleted together: one task deletes their files.
_MOST_EXPERIMENTS = 100


def _claim(ctx: Context) -> Effect | None:
    with ctx.db.begin() as tx:
        effect = outbox.claim(tx, ctx.now())
        if effect is None or "experiment_id" not in effect.payload:
            return effect
        if effect.kind is not EffectKind.DELETE_EXPERIMENT:
            return effect
        key = f"delete {ctx.random.uuid()}"
        return outbox.gather_deletions(tx, effect, key, _MOST_EXPERIMENTS - 1, ctx.now())


def run_due(ctx: Context) -> int:
    """Run the due effects and return their number. Failed effects are retried with growing delays."""
    done = 0
    ends_at = ctx.now() + _LONGEST
    for _ in range(_AT_MOST):
        effect = _claim(ctx) if ctx.now() < ends_at else None
        if effect is None:
            break
        try:
            _HANDLERS[effect.kind](ctx, effect.payload)
        except Unfinished as e:
            log.debug("effect %d (%s) goes on: %s", effect.id, effect.kind.value, e)
            with ctx.db.begin() as tx:
                outbox.continue_later(tx, effect.id, ctx.now())
            continue
        except Unready as e:
            log.debug("effect %d (%s) waits: %s", effect.id, effect.kind.value, e)
            with ctx.db.begin() as tx:
                outbox.delay(tx, effect.id, ctx.now())
            continue
        except Exception:
            log.exception(
                "effect %d (%s) failed at attempt %d", effect.id, effect.kind.value, effect.attempts
            )
            continue
        with ctx.db.begin() as tx:
            outbox.remove(tx, effect.id)
        done += 1
    return done
