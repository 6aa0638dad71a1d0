"""End searches with a cost above `searcher.stop_when.or_cost_above`, while machines are rented."""

import contextlib
import logging
from datetime import datetime, timedelta

from det_controlplane.core import search
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.experiments import searches
from det_controlplane.db.machines import machines
from det_controlplane.db.money import costs as cost_rows
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, WrongState
from det_controlplane.services.experiments import live
from det_controlplane.services.money.costs import span

log = logging.getLogger("det.search")

INTERVAL = timedelta(minutes=1)


def next_due(ctx: Context, tx: Tx) -> datetime | None:
    """Return the time of the next check, or None if no rented machine can add to the cost of such a search."""
    if not ctx.config.rents or not machines.any_live(tx) or not searches.cost_limits(tx):
        return None
    checked_at = ctx.memory.search_costs_checked_at
    return ctx.now() if checked_at is None else checked_at + INTERVAL


def enforce_if_due(ctx: Context) -> None:
    with ctx.db.autocommit() as tx:
        due = next_due(ctx, tx)
    if due is not None and due <= ctx.now():
        ctx.memory.search_costs_checked_at = ctx.now()
        enforce(ctx)


def enforce(ctx: Context) -> None:
    """Compare the cost of each search with its limit. The event of an exceeded limit ends the search."""
    with ctx.db.autocommit() as tx:
        limits = searches.cost_limits(tx)
        found = cost_rows.of_experiments(tx, list(limits), span(ctx)) if limits else []
    for cost in found:
        experiment_id = int(cost.id)
        if float(cost.usd) > limits[experiment_id]:
            event = search.CostExceeded(round(float(cost.usd), 6), limits[experiment_id])
            _end_search(ctx, experiment_id, event)


def _end_search(ctx: Context, experiment_id: int, event: search.CostExceeded) -> None:
    with (
        contextlib.suppress(WrongState, Missing),
        live.locked_experiment(ctx, experiment_id) as experiment,
    ):
        if experiment.journal.ending() is None:
            experiment.feed(event)
            log.info(
                "experiment %d: its search ends, because it cost $%.2f",
                experiment_id,
                event.cost_usd,
            )
