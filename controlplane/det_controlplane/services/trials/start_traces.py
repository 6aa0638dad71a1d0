"""The traces of starts. They contain the facts that `det trial describe` shows; nothing is measured for them."""

from datetime import timedelta

from det_controlplane.core.trials.start_spans import start_spans
from det_controlplane.db.trials import start_times
from det_controlplane.services.context import Context

# Starts that the collector did not accept for so long are not sent any more.
_KEPT = timedelta(hours=6)
# A run without a report for so long after its start is sent as it is.
_LONGEST_START = timedelta(hours=1)
_AT_ONCE = 100  # about a thousand spans
_LOOK_AGAIN_S = 2.0
_RETRY_S = 30.0


def send_due(ctx: Context) -> float | None:
    """Send the traces of starts that are complete. Return the seconds until the next look, or None if none is due.

    A process that dies after sending repeats the spans with the same ids."""
    if ctx.spans is None:
        return None
    pools = [pool.pool_name for pool in ctx.config.resource_pools]
    now = ctx.now()
    with ctx.db.autocommit() as tx:
        starts = start_times.untraced(tx, pools, now - _KEPT, now - _LONGEST_START, _AT_ONCE)
    if starts:
        spans = {
            span.context: span for start in starts for span in start_spans(ctx.cluster_id, start)
        }
        if not ctx.spans.send(list(spans.values())):
            return _RETRY_S
        with ctx.db.begin() as tx:
            start_times.set_traced(tx, [start.allocation_id for start in starts], now)
    if len(starts) == _AT_ONCE:
        return 0.0
    with ctx.db.autocommit() as tx:
        return _LOOK_AGAIN_S if start_times.are_starting(tx, pools, now - _KEPT) else None
