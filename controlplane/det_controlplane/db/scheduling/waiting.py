"""Read why the allocations of an experiment, trial, job or task wait, and their states."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from det_controlplane.core.tracebacks import ERROR
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.views import time

_REASONS = (
    """
    SELECT coalesce(json_agg(json_build_object('allocationId', a.id, 'trialId', a.trial_id, 'state', a.state, 'pool', a.pool,
        'code', CASE WHEN a.state = 'QUEUED' THEN coalesce(a.wait_code::text, 'NOT_SCHEDULED_YET') WHEN a.killed THEN 'KILLED'
                WHEN a.preempt_at IS NOT NULL THEN 'PREEMPTED' WHEN a.state = 'WAITING' THEN 'NO_METRICS' ELSE 'RUNS' END,
        'sentence', CASE WHEN a.state = 'QUEUED'
                THEN coalesce(a.wait_reason, w.sentence, 'was just queued; waiting for the scheduler')
            WHEN a.killed THEN 'is being killed: ' || coalesce(a.preempt_reason, 'on request')
            WHEN a.preempt_at IS NOT NULL THEN 'was asked to checkpoint and stop: ' || a.preempt_reason
            WHEN a.state = 'PULLING' THEN 'is pulling its image on ' || {agents}
            WHEN a.state = 'STARTING' AND cardinality(a.data_sets) > 0 THEN 'loads its data sets on ' || {agents} || {data}
            WHEN a.state = 'ASSIGNED' THEN 'is assigned to ' || {agents} || ', which has not started it yet' || {data}
            ELSE 'runs on ' || {agents} || {data} || {placement} || {elastic} || {silent} || {awaited} || {stragglers} END,
        'lostAgents', {lost_agents},
        'machineReason', a.machine_reason, 'noShow', n.no_show, 'machines', a.machine_code, 'nextTry', {next_try}, 'since', {since}) ORDER BY a.requested_at, a.id), '[]'::json)
    FROM allocations a JOIN tasks k ON k.id = a.task_id LEFT JOIN wait_reasons w ON w.id = a.wait_reason_id LEFT JOIN (
        SELECT DISTINCT ON (i.purpose) i.purpose, json_build_object('id', i.id, 'console', i.console) AS no_show
        FROM instances i WHERE i.console <> '' ORDER BY i.purpose, i.requested_at DESC
    ) n ON n.purpose = a.id AND a.state = 'QUEUED'
    WHERE a.state <> 'TERMINATED' AND {where}
""".replace(
        "{agents}",
        "(SELECT string_agg(c.agent_id, ', ' ORDER BY c.rank) FROM containers c WHERE c.allocation_id = a.id AND c.epoch = a.epoch)",
    )
    .replace("{data}", "CASE WHEN a.data_reason = '' THEN '' ELSE '; ' || a.data_reason END")
    .replace(
        "{placement}",
        """coalesce((SELECT '; its machines are in ' || string_agg(DISTINCT m.zone, ' and ') || ', ' || string_agg(DISTINCT m.placement, '; ')
            FROM containers c JOIN instances m ON m.agent_id = c.agent_id AND m.placement IS NOT NULL
            WHERE c.allocation_id = a.id AND c.epoch = a.epoch HAVING count(DISTINCT c.agent_id) > 1), '')""",
    )
    .replace(
        "{elastic}",
        """CASE WHEN a.max_slots IS NULL THEN '' ELSE concat(' with ', a.slots, ' of ', a.max_slots, ' slots', CASE WHEN a.slots < a.max_slots
            THEN '; it grows when slots are free, no job waits and the run has lasted 2 min' END) END""",
    )
    .replace(
        "{silent}",
        """coalesce((SELECT '; agent ' || string_agg(c.agent_id, ' and agent ' ORDER BY c.rank)
                || CASE count(*) WHEN 1 THEN ' has' ELSE ' have' END || ' been unreachable since '
                || to_char(min(g.last_seen_at) AT TIME ZONE 'UTC', 'HH24:MI:SS "UTC"')
            FROM containers c JOIN agents g ON g.id = c.agent_id
            WHERE c.allocation_id = a.id AND c.epoch = a.epoch AND g.state = 'SUSPECT'), '')""",
    )
    .replace(
        "{awaited}",
        """coalesce((SELECT '; waiting until ' || to_char(a.awaited_until AT TIME ZONE 'UTC', 'HH24:MI:SS "UTC"')
                || ' for agent ' || string_agg(c.agent_id, ' and agent ' ORDER BY c.rank) || ' to rejoin'
            FROM containers c JOIN agents g ON g.id = c.agent_id
            WHERE c.allocation_id = a.id AND c.epoch = a.epoch AND c.state <> 'TERMINATED' AND g.state = 'LOST'), '')""",
    )
    .replace(
        "{stragglers}",
        """coalesce((SELECT string_agg('; rank ' || s.rank || coalesce(' on agent ' || nullif(s.agent_id, ''), '')
                || ' is slow (' || round((s.own_s * 1000)::numeric, 1) || ' ms per step instead of '
                || round((s.median_s * 1000)::numeric, 1) || ' ms, mostly ' || s.cause || ')', '' ORDER BY s.rank)
            FROM (SELECT DISTINCT ON (o.rank) o.* FROM stragglers o WHERE o.allocation_id = a.id
                  ORDER BY o.rank, o.id DESC) s WHERE NOT s.recovered), '')""",
    )
    # A run continues only if each of its containers was lost with its agent or ended well.
    .replace(
        "{lost_agents}",
        """CASE WHEN a.state = 'QUEUED' THEN (
            SELECT array_agg(c.agent_id ORDER BY c.rank) FILTER (WHERE c.failure = 'agent_lost')
            FROM allocations p JOIN containers c ON c.allocation_id = p.id AND c.epoch = p.epoch
            LEFT JOIN agents g ON g.id = c.agent_id WHERE p.task_id = a.task_id AND p.run_id = a.run_id - 1
            HAVING bool_and(CASE WHEN c.failure = 'agent_lost' THEN coalesce(g.state = 'LOST', false)
                            ELSE c.failure IS NULL AND c.exit_code = 0 END)) END""",
    )
    .replace("{next_try}", time("a.machine_next_try"))
    .replace("{since}", time("coalesce(a.wait_since, a.preempt_at, a.assigned_at, a.requested_at)"))
)
# Tasks that delete an experiment's checkpoints are left out, because they begin after its end.
_BY = {
    "experiment": "k.experiment_id = cast(:id AS integer) AND k.kind <> 'CHECKPOINT_GC'",
    "trial": "k.trial_id = cast(:id AS integer)",
    "job": "a.job_id = cast(:id AS uuid)",
    "task": "k.id = :id",
}
# The last run of an ended thing; the last failed one if it failed. The end of a failed run's log: of its last lines, the lines of each container together. Agents removed the levels from
# the lines.
_LAST_RUN = """
    LEFT JOIN LATERAL (
        SELECT a.id, a.task_id, a.exit_kind, a.exit_reason, y.restarts, x.max_restarts, k.trial_id
        FROM allocations a JOIN tasks k ON k.id = a.task_id
        LEFT JOIN trials y ON y.id = k.trial_id LEFT JOIN experiments x ON x.id = y.experiment_id
        WHERE a.ended_at IS NOT NULL AND {where}
        ORDER BY coalesce({state} = 'ERROR' AND a.exit_kind = 'failed', false) DESC, a.ended_at DESC LIMIT 1
    ) r ON true LEFT JOIN LATERAL (
        SELECT string_agg(CASE WHEN {is_error} THEN '{error}' ELSE '' END || left(l.log, 400), chr(10)
                          ORDER BY l.container_id, l.id) AS errors
        FROM (SELECT * FROM task_logs o WHERE o.task_id = r.task_id ORDER BY o.id DESC LIMIT 500) l
        WHERE r.exit_kind = 'failed' AND l.allocation_id = r.id
              AND (l.stdtype = 'stderr' OR ({is_error} AND l.source IS DISTINCT FROM 'agent'))
    ) o ON true
""".replace(
    "{is_error}", "coalesce(l.level, '') IN ('LOG_LEVEL_ERROR', 'LOG_LEVEL_CRITICAL')"
).replace("{error}", ERROR)
_STATES = {
    "experiment": (
        "e.state::text, e.error, e.id, false, e.context_id IS NOT NULL",
        "experiments e", "e.id = cast(:id AS integer)",
    ),
    "trial": (
        "t.state::text, e.error, e.id, t.parked, e.context_id IS NOT NULL",
        "trials t JOIN experiments e ON e.id = t.experiment_id", "t.id = cast(:id AS integer)",
    ),
    "job": (
        "coalesce(e.state::text, 'ENDED'), e.error, e.id, false, e.id IS NULL OR e.context_id IS NOT NULL",
        "jobs j LEFT JOIN experiments e ON e.job_id = j.id", "j.id = cast(:id AS uuid)",
    ),
    "task": (
        "CASE WHEN t.ended_at IS NOT NULL THEN 'ENDED' WHEN t.state = 'PAUSED' THEN 'PAUSED' ELSE 'ACTIVE' END, '', NULL, false, true",
        "tasks t", "t.id = :id",
    ),
}  # fmt: skip
_STATE_COLUMNS = {"experiment": "e.state", "trial": "t.state", "job": "e.state"}
_STATE_OF = {
    kind: text(
        f"SELECT {columns}, r.exit_reason, r.exit_kind::text, coalesce(o.errors, ''), r.restarts, r.max_restarts,"
        f" r.trial_id FROM {tables} {_LAST_RUN.replace('{where}', _BY[kind]).replace('{state}', _STATE_COLUMNS.get(kind, 'NULL'))}"
        f" WHERE {of_id}"
    )
    for kind, (columns, tables, of_id) in _STATES.items()
}
_SHOWN_BY = text("""
    WITH k AS (SELECT t.config->'_reads' AS reads FROM tasks t JOIN allocations a ON a.task_id = t.id WHERE a.id = :allocation_id)
    SELECT e.id, e.state::text FROM experiments e WHERE e.id IN (
        SELECT v::integer FROM k, jsonb_array_elements_text(k.reads->'experiment_ids') v UNION
        SELECT t.experiment_id FROM k, jsonb_array_elements_text(k.reads->'trial_ids') v JOIN trials t ON t.id = v::integer)
    ORDER BY e.id
""")
_REASONS_OF = {kind: text(_REASONS.replace("{where}", where)) for kind, where in _BY.items()}
KINDS = tuple(_BY)


@dataclass(frozen=True, slots=True)
class Subject:
    """Hold the state of the experiment, trial, job or task that is asked about; it may have no live allocation."""

    state: str
    error: str
    experiment_id: int | None
    parked: bool
    has_files: bool  # False for an experiment that was created without files
    exit_reason: str | None  # of its last run
    exit_kind: str | None
    errors: str  # the last lines of a failed run in stderr, or logged as errors
    restarts: int | None  # of the trial that it was of
    max_restarts: int | None
    last_trial_id: int | None  # the trial of its last run


def subject(tx: Tx, kind: str, id: str) -> Subject | None:
    row = tx.execute(_STATE_OF[kind], {"id": id}).first()
    return None if row is None else Subject(*row)


def reasons(tx: Tx, kind: str, id: str) -> list[dict[str, Any]]:
    """Return an entry for each live allocation, in the API's JSON."""
    entries: list[dict[str, Any]] = tx.execute(_REASONS_OF[kind], {"id": id}).scalar_one()
    return entries


def shown_by(tx: Tx, allocation_id: str) -> list[tuple[int, str]]:
    """Return ids and states of the experiments that a TensorBoard shows."""
    return [tuple(row) for row in tx.execute(_SHOWN_BY, {"allocation_id": allocation_id})]
