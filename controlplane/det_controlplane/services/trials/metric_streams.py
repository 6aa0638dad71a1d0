"""Reading reported metrics back: streams over trials, and those of a checkpoint or model version."""

from collections.abc import Sequence
from typing import Any

from det_controlplane.db import metric_streams, trials
from det_controlplane.db.metric_streams import START, Position
from det_controlplane.services.checkpoints.records import parse_uuid
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing

__all__ = ["START", "Position", "check_trials", "of_checkpoint", "of_model_version", "page"]
BATCH = 500


def check_trials(ctx: Context, trial_ids: Sequence[int]) -> None:
    lost = sorted(set(trial_ids) - trials.known(ctx.db, trial_ids))
    if lost:
        raise Missing(f"trials not found: {', '.join(map(str, lost))}")


def page(
    ctx: Context, trial_ids: Sequence[int], group: str, after: Position
) -> tuple[list[Any], Position]:
    """Return the next reports, by trial and step, and where they end."""
    return metric_streams.page(ctx.db, trial_ids, group, after, BATCH)


def of_checkpoint(ctx: Context, uuid: str, group: str, kind: str) -> Any:
    """Return reports of the trials that said they used the checkpoint."""
    with ctx.db.autocommit() as tx:
        found = metric_streams.of_checkpoint(tx, parse_uuid(uuid), group, kind)
    if found is None:
        raise Missing(f"checkpoint {uuid} not found")
    return found


def of_model_version(ctx: Context, model_id: int, version: int, group: str, kind: str) -> Any:
    return metric_streams.of_model_version(ctx.db, model_id, version, group, kind)
