"""Streams of reported metrics, over trials, and of a checkpoint or model version."""

from collections.abc import Iterator, Sequence

from det_controlplane.core.people.roles import Right
from det_controlplane.db.trials import metric_streams, trials
from det_controlplane.db.trials.metric_streams import START, Position, ReportsPage, SourceFilter
from det_controlplane.services.checkpoints.records import parse_uuid
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing
from det_controlplane.services.principal import User

__all__ = ["Position", "check_trials", "of_checkpoint", "of_model_version", "page", "start"]
BATCH = 500


def check_trials(ctx: Context, trial_ids: Sequence[int]) -> None:
    lost = sorted(set(trial_ids) - trials.known(ctx.db, trial_ids))
    if lost:
        raise Missing(f"trials not found: {', '.join(map(str, lost))}")


def start(ctx: Context, trial_ids: Sequence[int], after: int) -> Position:
    """Return the position of the report `after`, or the first position for 0."""
    if not after:
        return START
    position = metric_streams.position(ctx.db, trial_ids, after)
    if position is None:
        raise Missing(f"report {after} of these trials not found: read them from the beginning")
    return position


def page(ctx: Context, trial_ids: Sequence[int], group: str, after: Position) -> ReportsPage:
    """Return the next reports, by trial and step."""
    return metric_streams.page(ctx.db, trial_ids, group, after, BATCH)


def of_checkpoint(ctx: Context, user: User, uuid: str, group: str, kind: str) -> Iterator[str]:
    """Return reports of the trials that said they used the checkpoint, as far as the caller sees them."""
    with ctx.db.autocommit() as tx:
        if not metric_streams.checkpoint_exists(tx, parse_uuid(uuid)):
            raise Missing(f"checkpoint {uuid} not found")
    return metric_streams.of_checkpoint(ctx.db, parse_uuid(uuid), _seen_by(user, group, kind))


def of_model_version(
    ctx: Context, user: User, model_id: int, version: int, group: str, kind: str
) -> Iterator[str]:
    chosen = _seen_by(user, group, kind)
    return metric_streams.of_model_version(ctx.db, model_id, version, chosen)


def _seen_by(user: User, group: str, kind: str) -> SourceFilter:
    within = user.grants.workspaces(Right.VIEW_EXPERIMENT_METADATA)
    return SourceFilter(group, kind, within, user.experiment_id if user.narrow else None)
