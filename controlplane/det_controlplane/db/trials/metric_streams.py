"""Reported metrics in the API's JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ColumnElement, Select, literal_column, select, text

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.pages import PART_BYTES, Collection, find
from det_controlplane.db.engine.views import time

_REPORT = f"""json_build_object('trialId', m.trial_id, 'trialRunId', m.run_id, 'totalBatches', coalesce(m.total_batches, 0),
    'endTime', {time("m.reported_at")}, 'id', m.id, 'archived', m.archived, 'group', m.metric_group,
    'metrics', CASE m.metric_group
        WHEN 'validation' THEN jsonb_build_object('validation_metrics', m.metrics)
        ELSE jsonb_build_object('avg_metrics', m.metrics, 'batch_metrics', m.batch_metrics) END)"""
# The position is a row, so that the next batch starts behind it however long the stream is.
_PAGE = text(f"""
    SELECT trial_id, step, id, report, found FROM (
        SELECT *, count(*) OVER () AS found, sum(size) OVER (ORDER BY trial_id, step, id) - size AS before FROM (
            SELECT *, octet_length(report::text) AS size FROM (
                SELECT m.trial_id, coalesce(m.total_batches, -1) AS step, m.id, {_REPORT} AS report FROM metrics m
                WHERE m.trial_id = ANY(cast(:trial_ids AS integer[])) AND NOT m.archived
                  AND (cast(:group AS text) = '' OR m.metric_group = :group)
                  AND (m.trial_id, coalesce(m.total_batches, -1), m.id) > (:trial_id, :step, :id)
                ORDER BY m.trial_id, coalesce(m.total_batches, -1), m.id LIMIT :limit) x) y) z
    WHERE before < :most_bytes ORDER BY trial_id, step, id
""")
_POSITION = text("""
    SELECT trial_id, coalesce(total_batches, -1) AS step, id FROM metrics
    WHERE id = :id AND trial_id = ANY(cast(:trial_ids AS integer[]))
""")
_SOURCE = "EXISTS (SELECT 1 FROM trial_sources s {join} WHERE s.trial_id = m.trial_id AND (cast(:kind AS text) = '' OR s.kind = :kind) AND {used})"


def _of_sources(sql: str, join: str = "") -> Collection:
    """Return reports of trials that used a thing. The trials may be of other workspaces than the thing is."""
    reports: Select[Any] = select(literal_column(_REPORT)).select_from(
        text(
            "metrics m JOIN trials t ON t.id = m.trial_id JOIN experiments e ON e.id = t.experiment_id"
            " JOIN projects p ON p.id = e.project_id"
        )
    )
    condition = text(f"""{_SOURCE.format(join=join, used=sql)}
        AND NOT m.archived AND (cast(:group AS text) = '' OR m.metric_group = :group)
        AND (cast(:within AS integer[]) IS NULL OR p.workspace_id = ANY(cast(:within AS integer[])))
        AND (cast(:experiment_id AS integer) IS NULL OR e.id = :experiment_id)""")
    order: dict[str, ColumnElement[Any]] = {
        "": literal_column("(m.trial_id, m.total_batches, m.id)")
    }
    return Collection(
        "metrics", reports.where(condition), order, key=literal_column("m.id", BigInteger)
    )


_OF_CHECKPOINT = _of_sources("s.checkpoint_uuid = :uuid")
_OF_VERSION = _of_sources(
    "v.model_id = :model_id AND v.version = :version",
    "JOIN model_versions v ON v.model_id = s.model_id AND v.version = s.model_version",
)
_CHECKPOINT = text("SELECT 1 FROM checkpoints WHERE uuid = :uuid")
_ALL = Page(limit=-1)

Position = tuple[int, int, int]
START: Position = (0, -2, 0)


@dataclass(frozen=True, slots=True)
class ReportsPage:
    """Reports in the API's JSON, with the position of the last one."""

    reports: list[Any]
    last: Position
    is_last: bool


def page(
    db: Database, trial_ids: Sequence[int], group: str, after: Position, most: int
) -> ReportsPage:
    """Return the next reports in the order of trials and steps: at most `most`, fewer if they are long."""
    trial_id, step, row_id = after
    params = {
        "trial_ids": list(trial_ids), "group": group, "trial_id": trial_id, "step": step,
        "id": row_id, "limit": most, "most_bytes": PART_BYTES,
    }  # fmt: skip
    rows = db.read(_PAGE, params)
    if not rows:
        return ReportsPage([], after, True)
    count, end = rows[0].found, rows[-1]
    last = (end.trial_id, end.step, end.id)
    return ReportsPage([r.report for r in rows], last, count < most and len(rows) == count)


def position(db: Database, trial_ids: Sequence[int], report_id: int) -> Position | None:
    """Return the position of a report in a stream, or None if it is not a report of these trials."""
    rows = db.read(_POSITION, {"id": report_id, "trial_ids": list(trial_ids)})
    return (rows[0].trial_id, rows[0].step, rows[0].id) if rows else None


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


def checkpoint_exists(tx: Tx, uuid: UUID) -> bool:
    return tx.execute(_CHECKPOINT, {"uuid": uuid}).scalar() is not None


def of_checkpoint(db: Database, uuid: UUID, chosen: SourceFilter) -> Iterator[str]:
    """Return reports of the trials that said they used the checkpoint, as the JSON text of the answer."""
    return find(db, _OF_CHECKPOINT, _ALL, Sort(), {}, uuid=uuid, **chosen.params())


def of_model_version(
    db: Database, model_id: int, version: int, chosen: SourceFilter
) -> Iterator[str]:
    params = {"model_id": model_id, "version": version, **chosen.params()}
    return find(db, _OF_VERSION, _ALL, Sort(), {}, **params)
