"""Invariants of machines in the database: each query lists violations and must return no rows."""

MACHINE_RULES: dict[str, str] = {
    "a machine was ended as drained or idle, and something runs there": """
        SELECT i.id || ' (' || i.reason || '): ' || c.id FROM instances i JOIN containers c ON c.agent_id = i.agent_id
        WHERE i.state = 'TERMINATING' AND c.state <> 'TERMINATED'
        AND (i.reason LIKE 'it is drained%' OR i.reason LIKE 'idle%')""",
    "a machine that its cloud took back counts as a start that failed": """
        SELECT id || ': ' || reason FROM instances
        WHERE starts_with(reason, 'its cloud took it back') AND no_show
        OR starts_with(reason, 'it ended before its agent joined') AND reason LIKE '%taken back'""",
    "an offer is asked for that was refused a moment ago": """
        SELECT i.id || ': ' || i.zone || ' ' || i.machine_type FROM instances i JOIN cooldowns c ON
            c.provider = i.provider AND c.region IN ('', i.region) AND c.zone IN ('', i.zone)
            AND c.machine_type IN ('', i.machine_type) AND c.capacity IN ('', i.capacity::text)
            AND c.pool IN ('', i.pool)
        WHERE i.state = 'REQUESTED' AND c.refused_at < i.requested_at AND c.until > i.requested_at""",
    "a gang is spread over clouds or regions": """
        SELECT c.allocation_id || ': ' || string_agg(DISTINCT i.provider || ' ' || i.region, ', ')
        FROM containers c JOIN instances i ON i.agent_id = c.agent_id WHERE c.state <> 'TERMINATED'
        GROUP BY c.allocation_id, c.epoch HAVING count(DISTINCT (i.provider, i.region)) > 1""",
    "an instance is over and its agent is not given up": """
        SELECT i.id || ' is ' || i.state || ', agent ' || g.id || ' ' || g.state FROM instances i
        JOIN agents g ON g.id = i.agent_id WHERE i.state IN ('GONE', 'FAILED') AND g.state <> 'LOST'""",
}
