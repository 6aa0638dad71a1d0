"""Why something waits, in the scheduler's own words."""

from typing import Any
from uuid import UUID

from det_controlplane.db.sql import text
from det_controlplane.db.views import time
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing

_REASONS = """
    SELECT coalesce(json_agg(json_build_object('allocationId', a.id, 'trialId', a.trial_id, 'state', a.state,
        'code', CASE WHEN a.state = 'QUEUED' THEN coalesce(a.wait_code, 'NOT_SCHEDULED_YET') WHEN a.killed THEN 'KILLED'
                WHEN a.preempt_at IS NOT NULL THEN 'PREEMPTED' ELSE 'RUNS' END,
        'sentence', CASE WHEN a.state = 'QUEUED'
                THEN coalesce(a.wait_reason, 'was queued just now and has not been looked at yet; ask again in a second')
            WHEN a.killed THEN 'is being killed: ' || coalesce(a.preempt_reason, 'on request')
            WHEN a.preempt_at IS NOT NULL THEN 'was asked to checkpoint and stop: ' || a.preempt_reason
            WHEN a.state = 'PULLING' THEN 'pulls its image on ' || {agents}
            WHEN a.state = 'ASSIGNED' THEN 'was given to ' || {agents} || ', which has not started it yet'
            ELSE 'runs on ' || {agents} END,
        'since', {since}) ORDER BY a.requested_at, a.id), '[]'::json)
    FROM allocations a JOIN tasks k ON k.id = a.task_id WHERE a.state <> 'TERMINATED' AND {where}
""".replace(
    "{agents}",
    "(SELECT string_agg(c.agent_id, ', ' ORDER BY c.rank) FROM containers c WHERE c.allocation_id = a.id AND c.epoch = a.epoch)",
).replace("{since}", time("coalesce(a.wait_since, a.preempt_at, a.assigned_at, a.requested_at)"))
_BY = {
    "experiment": "k.experiment_id = cast(:id AS integer)",
    "trial": "k.trial_id = cast(:id AS integer)",
    "job": "a.job_id = cast(:id AS uuid)",
    "task": "k.id = :id",
}
_STATES = {
    "experiment": text("""
        SELECT e.state::text AS state, e.error, (SELECT count(*) FROM trials t WHERE t.experiment_id = e.id) AS trials,
               (SELECT a.exit_reason FROM allocations a JOIN tasks k ON k.id = a.task_id WHERE k.experiment_id = e.id
                AND a.ended_at IS NOT NULL ORDER BY a.ended_at DESC LIMIT 1) AS exit_reason
        FROM experiments e WHERE e.id = cast(:id AS integer)"""),
    "trial": text("""
        SELECT t.state::text AS state, e.error, 1 AS trials,
               (SELECT a.exit_reason FROM allocations a WHERE a.trial_id = t.id AND a.ended_at IS NOT NULL
                ORDER BY a.ended_at DESC LIMIT 1) AS exit_reason
        FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE t.id = cast(:id AS integer)"""),
    "job": text("""
        SELECT 'ACTIVE' AS state, '' AS error, 1 AS trials, NULL AS exit_reason FROM jobs j WHERE j.id = cast(:id AS uuid)"""),
    "task": text("""
        SELECT CASE WHEN k.ended_at IS NULL THEN 'ACTIVE' ELSE 'ended' END AS state, '' AS error, 1 AS trials,
               NULL AS exit_reason FROM tasks k WHERE k.id = :id"""),
}
_SENTENCES = {
    "PAUSED": "is paused: `det experiment activate {id}` continues it",
    "COMPLETED": "has completed",
    "CANCELED": "was canceled",
}


def of(ctx: Context, kind: str, id: str) -> list[dict[str, Any]]:
    """One entry for each live allocation; without any, one for the thing itself."""
    if kind not in _BY:
        raise Invalid(f"cannot tell why for a {kind!r}; ask for {', '.join(_BY)}")
    if kind in ("experiment", "trial") and not id.isdigit():
        raise Invalid(f"{kind} id must be a number, not {id!r}")
    if kind == "job" and not _is_uuid(id):
        raise Invalid(f"job id must be a UUID, not {id!r}; `det job list` shows them")
    with ctx.db.begin() as tx:
        row = tx.row(_STATES[kind], {"id": id})
        if row is None:
            raise Missing(f"{kind} '{id}' not found")
        reasons: list[dict[str, Any]] = tx.value(
            text(_REASONS.replace("{where}", _BY[kind])), {"id": id}
        )
    return reasons or [_itself(row, id)]


def _itself(row: Any, id: str) -> dict[str, Any]:
    sentence = _SENTENCES.get(row.state, "has nothing queued and nothing running").format(id=id)
    if row.state == "ERROR":
        reasons = [
            r for r in (row.error, row.exit_reason and f"its last run: {row.exit_reason}") if r
        ]
        sentence = f"has failed: {'; '.join(reasons) or 'see its logs'}"
    elif row.state == "COMPLETED" and row.exit_reason:
        sentence = f"has completed; its last run: {row.exit_reason}"
    return {
        "allocationId": None, "trialId": None, "state": row.state, "code": row.state,
        "sentence": sentence, "since": None,
    }  # fmt: skip


def _is_uuid(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True
