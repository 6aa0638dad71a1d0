"""Why something waits, in the scheduler's own words."""

from typing import Any
from uuid import UUID

from sqlalchemy import text

from det_controlplane.db.views import time
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing

_REASONS = """
    SELECT coalesce(json_agg(json_build_object('allocationId', a.id, 'trialId', a.trial_id, 'state', a.state,
        'code', CASE WHEN a.state = 'QUEUED' THEN coalesce(a.wait_code::text, 'NOT_SCHEDULED_YET') WHEN a.killed THEN 'KILLED'
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
_LAST_EXIT = """
    (SELECT a.exit_reason FROM allocations a JOIN tasks k ON k.id = a.task_id WHERE a.ended_at IS NOT NULL AND {where}
     ORDER BY a.ended_at DESC LIMIT 1) AS exit_reason
"""
_EXPERIMENT = "e.state::text AS state, e.error, e.id AS experiment_id, false AS parked"
_STATES = {
    "experiment": f"SELECT {_EXPERIMENT}, {_LAST_EXIT} FROM experiments e WHERE e.id = cast(:id AS integer)",
    "trial": f"""
        SELECT t.state::text AS state, e.error, e.id AS experiment_id, t.parked, {_LAST_EXIT}
        FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE t.id = cast(:id AS integer)""",
    "job": f"""
        SELECT {_EXPERIMENT.replace("e.state::text", "coalesce(e.state::text, 'ENDED')")}, {_LAST_EXIT}
        FROM jobs j LEFT JOIN experiments e ON e.job_id = j.id WHERE j.id = cast(:id AS uuid)""",
    "task": f"""
        SELECT CASE WHEN k.ended_at IS NULL THEN 'ACTIVE' ELSE 'ENDED' END AS state, '' AS error,
               NULL AS experiment_id, false AS parked, {_LAST_EXIT}
        FROM tasks k WHERE k.id = :id""",
}
_SENTENCES = {
    "PAUSED": "is paused: `det experiment activate {experiment_id}` continues it",
    "COMPLETED": "has completed",
    "CANCELED": "was canceled",
    "ENDED": "has ended",
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
        row = tx.execute(text(_STATES[kind].replace("{where}", _BY[kind])), {"id": id}).first()
        if row is None:
            raise Missing(f"{kind} '{id}' not found")
        reasons: list[dict[str, Any]] = tx.execute(
            text(_REASONS.replace("{where}", _BY[kind])), {"id": id}
        ).scalar_one()
    return reasons or [_itself(row)]


def _itself(row: Any) -> dict[str, Any]:
    return {
        "allocationId": None, "trialId": None, "state": row.state, "code": row.state,
        "sentence": _sentence_of(row), "since": None,
    }  # fmt: skip


def _sentence_of(row: Any) -> str:
    last = f"its last run: {row.exit_reason}" if row.exit_reason else ""
    if row.state == "ERROR":
        return f"has failed: {'; '.join(filter(None, (row.error, last))) or 'see its logs'}"
    if row.state in ("COMPLETED", "ENDED") and last:
        return f"{_SENTENCES[row.state]}; {last}"
    if row.state == "ACTIVE" and row.parked:
        return "holds no slots until the searcher tells it to train on"
    told = _SENTENCES.get(row.state, "has nothing queued and nothing running")
    return told.format(experiment_id=row.experiment_id)


def _is_uuid(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True
