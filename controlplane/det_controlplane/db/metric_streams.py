"""Reported metrics in the API's JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text

from det_controlplane.db.engine import Database, Tx
from det_controlplane.db.views import time

_REPORT = f"""json_build_object('trialId', m.trial_id, 'trialRunId', m.run_id, 'totalBatches', coalesce(m.total_batches, 0),
    'endTime', {time("m.reported_at")}, 'id', m.id, 'archived', m.archived, 'group', m.metric_group,
    'metrics', CASE m.metric_group
        WHEN 'validation' THEN jsonb_build_object('validation_metrics', m.metrics)
        ELSE jsonb_build_object('avg_metrics', m.metrics, 'batch_metrics', m.batch_metrics) END)"""
# The position is a row, so that the next batch starts behind it however long the stream is.
_PAGE = text(f"""
    SELECT m.trial_id, coalesce(m.total_batches, -1) AS step, m.id, {_REPORT} AS report FROM metrics m
    WHERE m.trial_id = ANY(cast(:trial_ids AS integer[])) AND NOT m.archived
      AND (cast(:group AS text) = '' OR m.metric_group = :group)
      AND (m.trial_id, coalesce(m.total_batches, -1), m.id) > (:trial_id, :step, :id)
    ORDER BY m.trial_id, coalesce(m.total_batches, -1), m.id LIMIT :limit
""")
# Of trials that are seen, which may be of other workspaces than what they used.
_OF_SOURCES = f"""
    SELECT coalesce(json_agg({_REPORT} ORDER BY m.trial_id, m.total_batches, m.id), '[]'::json) FROM metrics m
    JOIN trial_sources s ON s.trial_id = m.trial_id {{join}}
    JOIN trials t ON t.id = m.trial_id JOIN experiments e ON e.id = t.experiment_id JOIN projects p ON p.id = e.project_id
    WHERE {{where}} AND NOT m.archived AND (cast(:group AS text) = '' OR m.metric_group = :group)
      AND (cast(:within AS integer[]) IS NULL OR p.workspace_id = ANY(cast(:within AS integer[])))
      AND (cast(:experiment_id AS integer) IS NULL OR e.id = :experiment_id)
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


def page(
    db: Database, trial_ids: Sequence[int], group: str, after: Position, most: int
) -> tuple[list[Any], Position]:
    """Return the next reports, by trial and step, and where they end."""
    trial_id, step, row_id = after
    params = {
        "trial_ids": list(trial_ids), "group": group, "trial_id": trial_id, "step": step,
        "id": row_id, "limit": most,
    }  # fmt: skip
    rows = db.read(_PAGE, params)
    last = (rows[-1].trial_id, rows[-1].step, rows[-1].id) if rows else after
    return [r.report for r in rows], last


@dataclass(frozen=True, slots=True)
class SourceFilter:
    """Choose reports of trials that used a checkpoint or model version: by group, kind of use and workspace."""

    group: str
    kind: str
    within: Sequence[int] | None  # the workspaces of trials; None: all
    experiment_id: int | None  # of a caller that sees no other

    def params(self) -> dict[str, Any]:
        within = None if self.within is None else list(self.within)
        return {
            "group": self.group, "kind": self.kind, "within": within,
            "experiment_id": self.experiment_id,
        }  # fmt: skip


def of_checkpoint(tx: Tx, uuid: UUID, chosen: SourceFilter) -> list[Any] | None:
    """Return reports of the trials that said they used the checkpoint; None when there is none."""
    params = {"uuid": uuid, **chosen.params()}
    if tx.execute(_CHECKPOINT, {"uuid": uuid}).scalar() is None:
        return None
    found: list[Any] = tx.execute(_OF_CHECKPOINT, params).scalar_one()
    return found


def of_model_version(db: Database, model_id: int, version: int, chosen: SourceFilter) -> list[Any]:
    params = {"model_id": model_id, "version": version, **chosen.params()}
    found: list[Any] = db.read(_OF_VERSION, params)[0][0]
    return found
