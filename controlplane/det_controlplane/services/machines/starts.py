"""The start of a trial's newest run, and the usual starts of a pool."""

from datetime import timedelta
from typing import Any

from det_controlplane.core.trials.start_phases import QUANTILES, PhaseSummary, phases, summarized
from det_controlplane.core.trials.start_spans import submission_of
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.machines import machine_views
from det_controlplane.db.trials import start_times, trials
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing

_PERIOD = timedelta(days=30)
# Older images lack a month of security updates, and machines do not install them.
_IMAGE_AGE = timedelta(days=30)
_MOST_STARTS = 500


def of_trial(ctx: Context, trial_id: int) -> dict[str, Any] | None:
    """Return the phases of the start of a trial's newest run, or None before its first run."""
    with ctx.db.autocommit() as tx:
        start = start_times.newest_of_trial(tx, trial_id)
        if start is None and trials.by_id(tx, trial_id) is None:
            raise Missing(f"trial {trial_id} not found")
    if start is None:
        return None
    ended = phases(start.times)
    trace = _trace_id(ctx, trial_id)
    return {
        "allocationId": start.allocation_id,
        **({"traceId": trace} if trace else {}),
        "requestedAt": start.times.requested_at.isoformat(),
        "isComplete": start.times.first_report_at is not None,
        "phases": [
            {"name": p.name, "seconds": round(p.seconds, 1), "usd": round(p.usd, 4)} for p in ended
        ],
    }


def _trace_id(ctx: Context, trial_id: int) -> str:
    """Return the id of the trace of a trial's experiment, or '' if telemetry is off."""
    if ctx.spans is None:
        return ""
    with ctx.db.autocommit() as tx:
        experiment_id, caller = start_times.submission_of_trial(tx, trial_id)
    return submission_of(ctx.cluster_id, experiment_id, caller).trace_id


def of_pool(ctx: Context, tx: Tx, pool: str) -> list[dict[str, Any]]:
    """Return the quantiles of each phase over the pool's starts of the last month."""
    return [
        {
            "name": summary.name,
            "starts": summary.starts,
            **{
                f"p{q * 100:g}Seconds": round(value, 1)
                for q, value in zip(QUANTILES, summary.seconds, strict=True)
            },
            **{
                f"p{q * 100:g}Usd": round(value, 4)
                for q, value in zip(QUANTILES, summary.usd, strict=True)
            },
        }
        for summary in summaries(ctx, tx, pool)
    ]


def image_of_pool(ctx: Context, tx: Tx, pool: str) -> dict[str, Any] | None:
    """Return the age of the image of the pool's newest machine, or None for images that do not report it."""
    built_at = machine_views.newest_image(tx, pool, ctx.now() - _PERIOD)
    if built_at is None:
        return None
    age = ctx.now() - built_at
    old = f"the image is {age.days} days old: make a new one with `det deploy aws|gcp image`"
    return {
        "builtAt": built_at.isoformat(timespec="seconds"),
        "ageDays": age.days,
        "warning": old if age > _IMAGE_AGE else "",
    }


def summaries(ctx: Context, tx: Tx, pool: str) -> list[PhaseSummary]:
    return summarized(start_times.of_pool(tx, pool, ctx.now() - _PERIOD, _MOST_STARTS))
