"""Series that profilers measured on a trial's machines."""

from collections.abc import Sequence

from det_controlplane.db.trials import profiles
from det_controlplane.db.trials.profiles import (
    LONGEST_LABEL,
    MISC,
    SYSTEM,
    TIMING,
    Labels,
    Point,
    Series,
)
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid
from det_controlplane.services.trials.metric_streams import check_trials

__all__ = ["KINDS", "Labels", "Point", "Series", "add", "available", "series"]
KINDS = (SYSTEM, TIMING, MISC)


def available(ctx: Context, trial_id: int) -> list[Labels]:
    check_trials(ctx, [trial_id])
    with ctx.db.autocommit() as tx:
        return profiles.labels_of(tx, trial_id)


def series(ctx: Context, trial_id: int, wanted: Labels) -> list[Series]:
    check_trials(ctx, [trial_id])
    with ctx.db.autocommit() as tx:
        return profiles.series(tx, trial_id, wanted)


def add(ctx: Context, batches: Sequence[tuple[int, Labels, Sequence[Point]]]) -> None:
    """Store points of several series, or none of them."""
    check_trials(ctx, sorted({trial_id for trial_id, _, _ in batches}))
    with ctx.db.begin() as tx:
        for trial_id, labels, points in batches:
            if not labels.name:
                raise Invalid(f"trial {trial_id}: labels.name of a series is required")
            if max(map(len, (labels.name, labels.agent_id, labels.gpu_uuid))) > LONGEST_LABEL:
                raise Invalid(
                    f"trial {trial_id}: labels of a series have at most {LONGEST_LABEL} characters"
                )
            profiles.add(tx, trial_id, labels, points)
