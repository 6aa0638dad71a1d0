"""Reading reported metrics back: streams over trials, and those of a checkpoint or model version."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from det_controlplane.db.views import time
from det_controlplane.services.checkpoints.records import parse_uuid
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing

BATCH = 500

_REPORT = f"""json_build_object('trialId', m.trial_id, 'trialRunId', m.run_id, 'totalBatches', coalesce(m.total_batches, 0),
    'endTime', {time("m.reported_at")}, 'id', m.id, 'archived', m.archived, 'group', m.metric_group,
    'metrics', CASE m.metric_group
        WHEN 'validation' THEN jsonb_build_object('validation_metrics', m.metrics)
        ELSE jsonb_build_object('avg_metrics', m.metrics, 'batch_metrics', coalesce(m.batch_metrics, '[]')) END)"""
# The position is a row, so that the next batch starts behind it however long the stream is.
_PAGE = text(f"""
    SELECT m.trial_id, coalesce(m.total_batches, -1) AS step, m.id, {_REPORT} AS report FROM metrics m
    WHERE m.trial_id = ANY(cast(:trial_ids AS integer[])) AND NOT m.archived
      AND (cast(:group AS text) = '' OR m.metric_group = :group)
      AND (m.trial_id, coalesce(m.total_batches, -1), m.id) > (:trial_id, :step, :id)
    ORDER BY m.trial_id, coalesce(m.total_batches, -1), m.id LIMIT :limit
""")
_KNOWN = text("SELECT id FROM trials WHERE id = ANY(cast(:ids AS integer[]))")
_OF_SOURCES = f"""
    SELECT coalesce(json_agg({_REPORT} ORDER BY m.trial_id, m.total_batches, m.id), '[]'::json) FROM metrics m
    JOIN trial_sources s ON s.trial_id = m.trial_id {{join}}
    WHERE {{where}} AND NOT m.archived AND (cast(:group AS text) = '' OR m.metric_group = :group)
      AND (cast(:kind AS text) = '' OR s.kind = :kind)
"""
_OF_CHECKPOINT = text(_OF_SOURCES.format(join="", where="s.checkpoint_uuid = :uuid"))
_OF_VERSION = text(
    _OF_SOURCES.format(
        join="JOIN model_versions v ON v.model_id = s.model_id AND v.version = s.model_version",
        where="v.model_id = :model_id AND v.version = :version",
    )
)
_CHECKPOINT = text("SELECT 1 FROM checkpoints WHERE uuid = :uuid")

Position = tuple[int, int, int]
START: Position = (0, -2, 0)


def check_trials(ctx: Context, trial_ids: Sequence[int]) -> None:
    with ctx.db.begin() as tx:
        known = {r[0] for r in tx.execute(_KNOWN, {"ids": list(trial_ids)}).all()}
    lost = sorted(set(trial_ids) - known)
    if lost:
        raise Missing(f"trials not found: {', '.join(map(str, lost))}")


def page(
    ctx: Context, trial_ids: Sequence[int], group: str, after: Position
) -> tuple[list[Any], Position]:
    """The next reports, by trial and step, and where they end."""
    trial_id, step, row_id = after
    with ctx.db.begin() as tx:
        rows = tx.execute(
            _PAGE,
            {
                "trial_ids": list(trial_ids), "group": group, "trial_id": trial_id, "step": step,
                "id": row_id, "limit": BATCH,
            },
        ).all()  # fmt: skip
    last = (rows[-1].trial_id, rows[-1].step, rows[-1].id) if rows else after
    return [r.report for r in rows], last


def of_checkpoint(ctx: Context, uuid: str, group: str, kind: str) -> Any:
    """Of the trials that said they used the checkpoint."""
    params = {"uuid": parse_uuid(uuid), "group": group, "kind": kind}
    with ctx.db.begin() as tx:
        if tx.execute(_CHECKPOINT, params).scalar() is None:
            raise Missing(f"checkpoint {uuid} not found")
        return tx.execute(_OF_CHECKPOINT, params).scalar()


def of_model_version(ctx: Context, model_id: int, version: int, group: str, kind: str) -> Any:
    params = {"model_id": model_id, "version": version, "group": group, "kind": kind}
    with ctx.db.begin() as tx:
        return tx.execute(_OF_VERSION, params).scalar()
