"""Invariants in the database: each query lists violations and must return no rows."""

RULES: dict[str, str] = {
    "two live containers share a slot": """
        SELECT a.agent_id || ': ' || a.id || ' and ' || b.id FROM containers a JOIN containers b
        ON a.agent_id = b.agent_id AND a.id < b.id AND a.slot_ids && b.slot_ids
        WHERE a.state <> 'TERMINATED' AND b.state <> 'TERMINATED'""",
    "a slot is held by a container that has ended or is elsewhere": """
        SELECT s.agent_id || '/' || s.slot_id FROM slots s JOIN containers c ON c.id = s.container_id
        WHERE c.state = 'TERMINATED' OR c.agent_id <> s.agent_id OR NOT s.slot_id = ANY(c.slot_ids)""",
    "a live container does not hold its slots": """
        SELECT c.id::text FROM containers c WHERE c.state <> 'TERMINATED'
        AND cardinality(c.slot_ids) <> (SELECT count(*) FROM slots s WHERE s.container_id = c.id)""",
    "a gang runs without all of its slots": """
        SELECT a.id FROM allocations a WHERE a.state NOT IN ('QUEUED', 'TERMINATED')
        AND a.slots IS DISTINCT FROM (SELECT sum(cardinality(c.slot_ids)) FROM containers c
                                      WHERE c.allocation_id = a.id AND c.epoch = a.epoch)""",
    "an elastic gang runs with fewer slots than its minimum, or with more than its maximum": """
        SELECT a.id FROM allocations a WHERE a.state NOT IN ('QUEUED', 'TERMINATED')
        AND NOT a.slots BETWEEN a.min_slots AND a.max_slots""",
    "a rank is given up although its agent polls": """
        SELECT c.id || ' on ' || g.id FROM containers c JOIN agents g ON g.id = c.agent_id CROSS JOIN LATERAL (
            SELECT min(o.ended_at) AS failed_at FROM containers o
            WHERE o.allocation_id = c.allocation_id AND o.epoch = c.epoch) f
        WHERE c.message LIKE '%does not answer%' AND g.last_seen_at >= f.failed_at AND g.last_seen_at < c.ended_at""",
    "a container lives without its allocation, or beyond its epoch": """
        SELECT c.id || ' of ' || a.id FROM containers c JOIN allocations a ON a.id = c.allocation_id
        WHERE c.state <> 'TERMINATED' AND (a.state IN ('QUEUED', 'TERMINATED') OR a.epoch <> c.epoch)""",
    "a running allocation has no live container": """
        SELECT a.id FROM allocations a WHERE a.state NOT IN ('QUEUED', 'TERMINATED') AND NOT EXISTS (
            SELECT 1 FROM containers c WHERE c.allocation_id = a.id AND c.state <> 'TERMINATED')""",
    "a trial that should run has no live allocation": """
        SELECT t.id || ' is ' || t.state FROM trials t WHERE t.state NOT IN ('COMPLETED', 'CANCELED', 'ERROR', 'PAUSED')
        AND NOT (t.parked AND t.state = 'ACTIVE')
        AND NOT EXISTS (SELECT 1 FROM allocations a WHERE a.trial_id = t.id AND a.state <> 'TERMINATED')""",
    "a trial has ended in its searcher or program and waits for nothing": """
        SELECT t.id || ' is ' || t.state FROM trials t
        WHERE t.ended_at IS NULL AND (t.early_exit IS NOT NULL OR t.stop_requested)
        AND NOT EXISTS (SELECT 1 FROM allocations a WHERE a.trial_id = t.id AND a.state <> 'TERMINATED')""",
    "a trial has two live allocations": """
        SELECT a.trial_id::text FROM allocations a WHERE a.trial_id IS NOT NULL AND a.state <> 'TERMINATED'
        GROUP BY a.trial_id HAVING count(*) > 1""",
    "a trial that has ended has a live allocation": """
        SELECT t.id::text FROM trials t JOIN allocations a ON a.trial_id = t.id
        WHERE t.ended_at IS NOT NULL AND a.state <> 'TERMINATED'""",
    "an allocation waits, nobody can say why, and nobody will look": """
        SELECT a.id FROM allocations a LEFT JOIN pools p ON p.name = a.pool
        LEFT JOIN wait_reasons w ON w.id = a.wait_reason_id
        WHERE a.state = 'QUEUED' AND coalesce(a.wait_reason, w.sentence) IS NULL
        AND NOT coalesce(p.dirty, false)""",
    "a trial and its experiment disagree": """
        SELECT t.id || ' is ' || t.state || ', experiment ' || e.id || ' ' || e.state FROM trials t
        JOIN experiments e ON e.id = t.experiment_id WHERE t.ended_at IS NULL AND (
            e.state IN ('COMPLETED', 'CANCELED', 'ERROR', 'DELETING', 'DELETE_FAILED')
            OR (e.state = 'ACTIVE' AND t.state = 'PAUSED') OR (e.state = 'PAUSED' AND t.state = 'ACTIVE')
            OR (e.state::text LIKE 'STOPPING%' AND t.state IN ('ACTIVE', 'PAUSED')))""",
    "an experiment is stopping and no trial is left to wait for": """
        SELECT e.id::text FROM experiments e WHERE e.state::text LIKE 'STOPPING%'
        AND NOT EXISTS (SELECT 1 FROM trials t WHERE t.experiment_id = e.id AND t.ended_at IS NULL)""",
    "a kept number of trials or checkpoints is wrong": """
        SELECT e.id::text FROM experiments e LEFT JOIN trial_counts n ON n.experiment_id = e.id
        LEFT JOIN checkpoint_counts k ON k.experiment_id = e.id
        WHERE (n.project_id, n.trials, k.complete, k.size) IS DISTINCT FROM (e.project_id,
            (SELECT count(*)::integer FROM trials t WHERE t.experiment_id = e.id),
            (SELECT count(*)::integer FROM checkpoints c WHERE c.experiment_id = e.id AND c.state = 'COMPLETED'),
            (SELECT coalesce(sum(c.size), 0)::bigint FROM checkpoints c
             WHERE c.experiment_id = e.id AND c.state IN ('COMPLETED', 'PARTIALLY_DELETED')))""",
    "an experiment has more trials than max_trials": """
        SELECT e.id::text FROM experiments e JOIN trials t ON t.experiment_id = e.id
        WHERE t.early_exit IS NULL AND e.config#>'{searcher,max_trials}' IS NOT NULL
        GROUP BY e.id HAVING count(*) > (e.config#>>'{searcher,max_trials}')::integer""",
    "a trial was restarted more often than max_restarts": """
        SELECT t.id::text FROM trials t JOIN experiments e ON e.id = t.experiment_id
        WHERE t.restarts > (e.config->>'max_restarts')::integer + (t.ended_at IS NOT NULL)::integer""",
    "a run is killed, and nothing says why": """
        SELECT a.id FROM allocations a WHERE a.state <> 'TERMINATED' AND a.killed AND a.preempt_reason IS NULL""",
    "a report of a run that was replaced was taken": """
        SELECT m.id || ' of trial ' || m.trial_id FROM metrics m
        JOIN allocations a ON a.trial_id = m.trial_id AND a.run_id > m.run_id AND m.total_batches > a.start_steps
        JOIN containers c ON c.allocation_id = a.id
        WHERE NOT m.archived AND m.reported_at > c.started_at""",
    "a token outlives its allocation": """
        SELECT s.id || ' of ' || a.id FROM sessions s JOIN allocations a ON a.id = s.allocation_id
        WHERE a.ended_at IS NOT NULL AND s.revoked_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM containers c WHERE c.allocation_id = a.id AND c.failure = 'agent_lost')
        AND (s.expires_at IS NULL OR s.expires_at > a.ended_at + interval '60 seconds')""",
}

_EARLIER = "m.reported_at > c.started_at"


def with_skew(seconds: float) -> dict[str, str]:
    """Return the rules for a world in which times may have been taken by clocks that differ."""
    tolerant = f"{_EARLIER} + interval '{seconds} seconds'"
    return {name: sql.replace(_EARLIER, tolerant) for name, sql in RULES.items()}


# These can only break when a state or a journal changes.
JOURNAL_RULES: dict[str, str] = {
    "the journal has a gap": """
        SELECT s.experiment_id::text FROM searches s LEFT JOIN search_events v ON v.experiment_id = s.experiment_id
        GROUP BY s.experiment_id HAVING s.seq <> count(v.seq) OR s.seq <> coalesce(max(v.seq), 0)""",
    "the searcher heard more validations than were stored": """
        SELECT t.id::text FROM trials t WHERE (SELECT count(*) FROM search_events v
            WHERE v.experiment_id = t.experiment_id AND v.event->>'type' = 'validated'
            AND v.event->>'request_id' = t.request_id::text)
        > (SELECT count(*) FROM metrics m WHERE m.trial_id = t.id AND m.metric_group = 'validation')""",
    "the searcher was not told exactly once that a trial exited": """
        SELECT t.id::text FROM trials t JOIN experiments e ON e.id = t.experiment_id,
        LATERAL (SELECT count(*) AS n FROM search_events v WHERE v.experiment_id = t.experiment_id
                 AND v.event->>'type' = 'exited' AND v.event->>'request_id' = t.request_id::text) x
        WHERE x.n > 1 OR (x.n = 0 AND t.ended_at IS NOT NULL AND e.state IN ('ACTIVE', 'PAUSED'))
           OR (x.n = 1 AND t.ended_at IS NULL)""",
}

# Conditions that a completed tick must not leave behind.
TICK_RULES: dict[str, str] = {
    "a container of a lost agent lives on": """
        SELECT c.id || ' on ' || c.agent_id FROM containers c JOIN agents g ON g.id = c.agent_id
        JOIN allocations a ON a.id = c.allocation_id
        WHERE c.state <> 'TERMINATED' AND g.state = 'LOST' AND g.lost_after < :now
        AND (a.awaited_until IS NULL OR a.awaited_until <= :now)""",
    "a run waits for its agents for too long": """
        SELECT a.id || ' until ' || a.awaited_until FROM allocations a
        WHERE a.state <> 'TERMINATED' AND a.awaited_until > cast(:now AS timestamptz) + interval '62 seconds'""",
    "a failed elastic gang waits for silent agents": """
        SELECT a.id FROM allocations a WHERE a.state <> 'TERMINATED' AND a.poll_by <= :now""",
    "a kill is overdue": """
        SELECT a.id FROM allocations a WHERE a.state <> 'TERMINATED' AND a.kill_at <= :now""",
}

UNFINISHED = """
    SELECT 'experiment ' || e.id || ' is ' || e.state AS what FROM experiments e
    WHERE e.state NOT IN ('COMPLETED', 'CANCELED', 'ERROR', 'PAUSED', 'DELETE_FAILED')
    UNION ALL SELECT concat('allocation ', a.id, ' is ', a.state, ': ' || coalesce(a.wait_reason, w.sentence))
    FROM allocations a LEFT JOIN wait_reasons w ON w.id = a.wait_reason_id WHERE a.state <> 'TERMINATED'
    UNION ALL SELECT 'effect ' || o.kind || ' ' || o.payload FROM outbox o"""

STATES = """
    SELECT 'experiment ' || id AS what, state::text AS state, id AS experiment_id FROM experiments
    UNION ALL SELECT 'trial ' || id, state::text, experiment_id FROM trials
    UNION ALL SELECT 'allocation ' || a.id, CASE WHEN a.exit_kind = 'infrastructure' THEN 'LOST' ELSE a.state::text END,
    t.experiment_id FROM allocations a
    JOIN tasks t ON t.id = a.task_id"""

# Lost runs without a replacement continue when their agent has joined again with their container. A run over several
# agents continues if each other container ended well, or was lost with an agent that has not polled since.
NOT_GIVEN_BACK = """
    SELECT k.kind || ' ' || a.id AS what FROM containers c JOIN allocations a ON a.id = c.allocation_id
    JOIN tasks k ON k.id = a.task_id LEFT JOIN trials t ON t.id = k.trial_id
    WHERE c.agent_id = :agent AND c.id = ANY(cast(:ids AS uuid[])) AND c.failure = 'agent_lost' AND c.epoch = a.epoch
    AND a.state = 'TERMINATED' AND a.exit_kind = 'infrastructure' AND t.ended_at IS NULL AND k.kind <> 'GENERIC'
    AND (1 = (SELECT count(*) FROM containers p WHERE p.allocation_id = a.id AND p.epoch = a.epoch)
        OR a.ready AND c.id = ANY(cast(:whole AS uuid[])) AND (
            SELECT cast(:spoke_at AS timestamptz) < f.lost_at - interval '20 seconds' AND bool_and(p.id = c.id
                OR (p.state = 'TERMINATED' AND p.failure IS NULL AND p.exit_code = 0)
                OR (p.failure = 'agent_lost' AND g.state = 'LOST' AND g.last_seen_at <= f.lost_at
                    AND cardinality(p.slot_ids) = (SELECT count(*) FROM slots s WHERE s.agent_id = p.agent_id
                        AND s.slot_id = ANY(p.slot_ids) AND s.container_id IS NULL)))
            FROM containers p JOIN agents g ON g.id = p.agent_id, (
                SELECT min(x.ended_at) AS lost_at FROM containers x
                WHERE x.allocation_id = a.id AND x.epoch = a.epoch AND x.failure = 'agent_lost') f
            WHERE p.allocation_id = a.id AND p.epoch = a.epoch GROUP BY f.lost_at))
    AND NOT EXISTS (SELECT 1 FROM allocations l WHERE l.task_id = a.task_id AND l.run_id > a.run_id AND l.ready)
    AND cardinality(c.slot_ids) = (SELECT count(*) FROM slots s
        WHERE s.agent_id = c.agent_id AND s.slot_id = ANY(c.slot_ids) AND s.container_id IS NULL)"""

# Containers on lost agents for which runs wait.
AWAITED = """
    SELECT c.id::text AS id FROM containers c JOIN allocations a ON a.id = c.allocation_id
    JOIN agents g ON g.id = c.agent_id
    WHERE c.state <> 'TERMINATED' AND g.state = 'LOST' AND NOT a.killed AND a.id IN (
        SELECT o.allocation_id FROM containers o WHERE o.agent_id = :agent AND o.state <> 'TERMINATED')"""

# Awaited containers that ended too early: no other cause has ended their run.
GIVEN_UP = """
    SELECT c.id || ' of ' || a.id AS what FROM containers c JOIN allocations a ON a.id = c.allocation_id
    WHERE c.id = ANY(cast(:ids AS uuid[])) AND c.failure = 'agent_lost' AND c.message LIKE '% was lost'
    AND a.preempt_at IS NULL AND a.preempt_reason = 'another of its containers failed'
    AND NOT EXISTS (SELECT 1 FROM containers o WHERE o.allocation_id = a.id AND o.epoch = a.epoch AND o.id <> c.id
                    AND (o.ended_at <= c.ended_at OR o.failure = 'agent_lost'))"""

# Commands run once: one that ended by itself, on an agent that came back with its exit, ended so.
ENDED_AS_LOST = """
    SELECT k.kind || ' ' || k.id AS what FROM containers c JOIN allocations a ON a.id = c.allocation_id
    JOIN tasks k ON k.id = a.task_id
    WHERE c.id = ANY(cast(:ids AS uuid[])) AND k.kind = 'COMMAND' AND c.failure = 'agent_lost'
    AND a.exit_kind = 'infrastructure'"""

# The last run of each trial that has completed, by the key of its containers. A machine that disappears takes the
# reports on its disk with it. Usually the next run reports them again, but a stopped trial has no next run.
LAST_RUNS = """
    SELECT key FROM (
        SELECT DISTINCT ON (t.id) a.id || '/' || a.peer_key AS key, t.stop_requested, a.exit_kind
        FROM trials t JOIN allocations a ON a.trial_id = t.id
        WHERE t.state = 'COMPLETED' ORDER BY t.id, a.run_id DESC
    ) AS last WHERE NOT (stop_requested AND exit_kind IS NOT DISTINCT FROM 'infrastructure')"""
