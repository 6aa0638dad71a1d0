"""Fill the database of a cluster with the rows of a company by SQL, in minutes.

A size of 1 is a small team's first year: 1,000 experiments with 9,500 trials. Sizes multiply every table.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.experiments import counts, run_values
from sqlalchemy import text

# Rows at size 1.
EXPERIMENTS = 1000
USERS, WORKSPACES, PROJECTS, AGENTS = 50, 4, 20, 2
AUDIT_ROWS = 50_000
SLOTS = 8  # of an agent
# Of 100 experiments: 5 are queued, 8 ended with an error, 7 were canceled, the others are completed.
QUEUED, ERROR, CANCELED = 5, 8, 7
# A search has 50 trials, other experiments 5: 9.5 on average.
SEARCH_EVERY, SEARCH_TRIALS, TRIALS = 10, 50, 5
POINTS = 11  # of training and of validation, for each trial
LINES = 10  # of the log of each trial
CHECKPOINT_EVERY = 3  # trials
YEAR_S = 365 * 86_400

# Secondary indexes of these tables are dropped before the rows are inserted, and made afterwards.
BIG = (
    "metrics",
    "task_logs",
    "audit_log",
    "run_values",
    "trials",
    "tasks",
    "allocations",
    "containers",
    "checkpoints",
    "experiments",
    "jobs",
)
_INDEXES = text("""
    SELECT indexname, indexdef FROM pg_indexes i
    WHERE schemaname = 'public' AND tablename = ANY(:tables)
      AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conname = i.indexname)
    ORDER BY indexname
""")
# A crash during the fill loses the database, which is filled again. Shared buffers would need a restart.
_BULK_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "max_wal_size": "12GB",
    "checkpoint_timeout": "30min",
    "maintenance_work_mem": "1GB",
}
_ENDED = text("SELECT id FROM trials WHERE ended_at IS NOT NULL")
_COLUMNS = text("""
    SELECT column_name FROM information_schema.columns
    WHERE table_name = :table AND table_schema = 'public' AND is_generated = 'NEVER' ORDER BY ordinal_position
""")


@dataclass(frozen=True, slots=True)
class Size:
    """A factor, and the first ids of the rows that were inserted."""

    factor: int
    first: int = 0  # experiment
    first_user: int = 0
    first_project: int = 0
    database_mib: int = 0

    @property
    def experiments(self) -> int:
        return EXPERIMENTS * self.factor


def _uuid(number: str, kind: int) -> str:
    """Return an expression for the UUID of a numbered row of some kind."""
    return f"cast('{kind:08d}-0000-0000-0000-' || lpad(({number})::text, 12, '0') AS uuid)"


# Experiments end in the order of their ids, over a year that ends now. The last ones run or are queued.
_ENDED_AT = f"now() - make_interval(secs => {YEAR_S}.0 * (1 - n::double precision / :experiments))"
_STATE = f"""(CASE WHEN n > :experiments - :queued - :agents THEN 'ACTIVE' WHEN n % 100 < {ERROR} THEN 'ERROR'
    WHEN n % 100 < {ERROR + CANCELED} THEN 'CANCELED' ELSE 'COMPLETED' END)"""
_SUMMARY = """jsonb_build_object('loss', jsonb_build_object('count', 11, 'max', 1.1, 'min', 0.1, 'sum', 4.0,
    'mean', 0.36,
    'last', 0.1, 'type', 'number'), 'accuracy', jsonb_build_object('count', 11, 'max', 0.9, 'min', 0.1, 'sum', 6.0,
    'mean', 0.55, 'last', 0.9, 'type', 'number'))"""

_ORGANIZATION = (
    "INSERT INTO users (username) SELECT 'person-' || n FROM generate_series(1, :users) n",
    "INSERT INTO workspaces (name, user_id) SELECT 'team ' || n, 1 FROM generate_series(1, :workspaces) n",
    """
    INSERT INTO projects (workspace_id, name, key, user_id)
    SELECT (SELECT max(id) FROM workspaces) - n % :workspaces, 'project ' || n, lpad(upper(to_hex(n)), 5, 'P'), 1
    FROM generate_series(1, :projects) n
    """,
)
_EXPERIMENTS = {
    "jobs": {
        "id": _uuid("n", 1),
        "user_id": ":first_user + n % :users",
        "workspace_id": "(SELECT workspace_id FROM projects WHERE id = :first_project + n % :projects)",
        "name": "'model ' || n % 977 || ' of run ' || n",
        "position": "n",
        "submitted_at": f"{_ENDED_AT} - interval '3 hours'",
        "work_state": _STATE,
        "work_ended_at": f"CASE WHEN {_STATE} <> 'ACTIVE' THEN {_ENDED_AT} END",
    },
    "experiments": {
        "job_id": _uuid("n", 1),
        "state": f"cast({_STATE} AS experiment_state)",
        "name": "'model ' || n % 977 || ' of run ' || n",
        "labels": "ARRAY['label-' || n % 50]",
        "user_id": ":first_user + n % :users",
        "project_id": ":first_project + n % :projects",
        "progress": "1",
        "external_id": "NULL",
        "idempotency_key": "NULL",
        "best_metric": "0.09 + (n % 97) / 1000.0",
        "created_at": f"{_ENDED_AT} - interval '3 hours'",
        "started_at": f"{_ENDED_AT} - interval '3 hours'",
        "ended_at": f"CASE WHEN {_STATE} <> 'ACTIVE' THEN {_ENDED_AT} END",
    },
}
# There are as many ended commands, notebooks, shells, TensorBoards and generic tasks as experiments.
_TASKS = (
    f"""
    INSERT INTO jobs (id, kind, name, pool, position, user_id, workspace_id, submitted_at, work_state, work_ended_at)
    SELECT {_uuid("n", 7)}, (ARRAY['COMMAND', 'NOTEBOOK', 'SHELL', 'TENSORBOARD', 'GENERIC'])[1 + n % 5]::job_kind,
        'task ' || n % 977 || ' of day ' || n, 'default', n, :first_user + n % :users,
        (SELECT workspace_id FROM projects WHERE id = :first_project + n % :projects),
        {_ENDED_AT} - interval '1 hour', (ARRAY['COMPLETED', 'ERROR', 'CANCELED'])[1 + n % 3], {_ENDED_AT}
    FROM generate_series(1, :experiments) n
    """,
    f"""
    INSERT INTO tasks (id, kind, job_id, config, sealed, started_at, ended_at, exit_status, outcome, state)
    SELECT 'task-' || n, (ARRAY['COMMAND', 'NOTEBOOK', 'SHELL', 'TENSORBOARD', 'GENERIC'])[1 + n % 5]::task_kind,
        {_uuid("n", 7)}, jsonb_build_object('description', 'task ' || n, 'entrypoint', repeat('x', 900)), '',
        {_ENDED_AT} - interval '1 hour', {_ENDED_AT}, 'allocation ended',
        (ARRAY['COMPLETED', 'ERROR', 'CANCELED'])[1 + n % 3],
        CASE WHEN n % 5 = 4 THEN (ARRAY['COMPLETED', 'ERROR', 'CANCELED'])[1 + n % 3]::generic_task_state END
    FROM generate_series(1, :experiments) n
    """,
)
_TRIALS = (
    """
    INSERT INTO searches (experiment_id, seq, snapshot_seq, snapshot, closed)
    SELECT e.id, s.seq, s.snapshot_seq, s.snapshot, e.ended_at IS NOT NULL
    FROM experiments e, searches s WHERE e.id >= :first AND s.experiment_id = :prototype
    """,
    """
    INSERT INTO search_events (experiment_id, seq, event)
    SELECT e.id, s.seq, s.event FROM experiments e,
        search_events s WHERE e.id >= :first AND s.experiment_id = :prototype
    """,
    f"""
    INSERT INTO trials (experiment_id, request_id, state, hparams, seed, run_id, total_batches, task_id,
        searcher_metric, summary_metrics, started_at, ended_at)
    SELECT e.id, {_uuid("e.id * 100 + k", 5)}, e.state::text::trial_state,
        jsonb_build_object('lr', 0.1 / (1 + k % 13), 'layers', k % 7, 'optimizer', (ARRAY['adam', 'sgd'])[1 + k % 2]),
        k, 1, {POINTS} * 100, e.id || '.' || k, 0.09 + ((e.id * 7 + k) % 97) / 1000.0,
        jsonb_build_object('avg_metrics', {_SUMMARY}, 'validation_metrics', {_SUMMARY}),
        e.started_at + k * interval '1 minute', e.ended_at
    FROM experiments e, LATERAL generate_series(1, CASE WHEN e.state = 'ACTIVE' THEN 1
        WHEN e.id % {SEARCH_EVERY} = 0 THEN {SEARCH_TRIALS} ELSE {TRIALS} END) k
    WHERE e.id >= :first ORDER BY e.id, k
    """,
    """
    INSERT INTO metric_names (experiment_id, names)
    SELECT e.id, n.names FROM experiments e, metric_names n WHERE e.id >= :first AND n.experiment_id = :prototype
    """,
    """
    UPDATE experiments e SET best_trial_id = t.id
    FROM (SELECT DISTINCT ON (experiment_id) experiment_id, id FROM trials WHERE experiment_id >= :first
          ORDER BY experiment_id, searcher_metric) t
    WHERE t.experiment_id = e.id
    """,
    """
    INSERT INTO tasks (id, kind, job_id, trial_id, experiment_id, started_at, ended_at)
    SELECT t.task_id, 'TRIAL', e.job_id, t.id, e.id, t.started_at, t.ended_at
    FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE e.id >= :first
    """,
    # The first live experiments run on one agent each. The others are queued.
    """
    INSERT INTO allocations (id, task_id, trial_id, job_id, run_id, pool, slots, state, epoch, preemptible, ready,
        requested_at, assigned_at, started_at, ended_at, workspace_name, exit_kind, wait_code, wait_since)
    SELECT t.task_id || '.1', t.task_id, t.id, e.job_id, 1, 'default', 8,
        cast(CASE WHEN e.ended_at IS NOT NULL THEN 'TERMINATED' WHEN e.id < :first_queued THEN 'RUNNING'
            ELSE 'QUEUED' END AS allocation_state),
        1, true, e.id < :first_queued, t.started_at - interval '5 minutes',
            CASE WHEN e.id < :first_queued THEN t.started_at END,
        CASE WHEN e.id < :first_queued THEN t.started_at END, t.ended_at, w.name,
            CASE WHEN e.ended_at IS NOT NULL THEN 'clean' END::exit_kind,
        NULL, NULL
    FROM trials t JOIN experiments e ON e.id = t.experiment_id JOIN projects p ON p.id = e.project_id
        JOIN workspaces w ON w.id = p.workspace_id
    WHERE e.id >= :first
    """,
    f"""
    INSERT INTO containers (id, allocation_id, agent_id, epoch, rank, slot_ids, state, exit_code, assigned_at,
        started_at, ended_at)
    SELECT {_uuid("a.trial_id", 4)}, a.id, 'agent-' || (1 + a.trial_id % :agents), 1, 0, ARRAY[0,1,2,3,4,5,6,7],
        CASE WHEN a.ended_at IS NULL THEN 'RUNNING' ELSE 'TERMINATED' END::container_state,
        CASE WHEN a.ended_at IS NOT NULL THEN 0 END, a.requested_at, a.started_at, a.ended_at
    FROM allocations a WHERE a.trial_id >= :first_trial AND a.state <> 'QUEUED'
    """,
    """
    INSERT INTO agents (id, pool, state, agent_key_hash, incarnation, token_hash, joined_at, last_seen_at,
        lease_until, lost_after)
    SELECT 'agent-' || n, 'default', 'JOINED', '', gen_random_uuid(), decode(md5('agent-' || n), 'hex'),
        now(), now(), now() + interval '10 years', now() + interval '10 years'
    FROM generate_series(1, :agents) n
    """,
    """
    INSERT INTO slots (agent_id, slot_id, device_type, container_id)
    SELECT c.agent_id, s, 'cuda', c.id FROM containers c, generate_series(0, 7) s WHERE c.state = 'RUNNING'
    """,
    f"""
    INSERT INTO checkpoints (uuid, task_id, allocation_id, storage_id, trial_id, experiment_id, state,
        steps_completed, resources,
        metadata, size, reported_at)
    SELECT {_uuid("t.id", 6)}, t.task_id, t.task_id || '.1', (SELECT min(id) FROM storages), t.id, t.experiment_id,
        'COMPLETED', {POINTS} * 100,
        '{{"model.pt": 1000000}}', jsonb_build_object('steps_completed', {POINTS} * 100), 1000000, t.ended_at
    FROM trials t WHERE t.id >= :first_trial AND t.ended_at IS NOT NULL AND t.id % {CHECKPOINT_EVERY} = 0
    """,
)
_RESULTS = (
    f"""
    INSERT INTO metrics (trial_id, run_id, metric_group, total_batches, metrics, reported_at)
    SELECT t.id, 1, g.name, p * 100,
        jsonb_build_object('loss', 1.0 / p + (t.id % 97) / 1000.0, 'accuracy', 1 - 0.9 / p),
            t.started_at + p * interval '1 minute'
    FROM trials t, generate_series(1, {POINTS}) p, (VALUES ('training'), ('validation')) g (name)
    WHERE t.id >= :first_trial
    """,
    f"""
    UPDATE trials t SET best_validation_id = m.id, latest_validation_id = m.id
    FROM metrics m WHERE m.trial_id = t.id AND m.metric_group = 'validation' AND m.total_batches = {POINTS} * 100
    """,
    f"""
    INSERT INTO task_logs (task_id, allocation_id, agent_id, container_id, rank_id, logged_at, level, source,
        stdtype, log)
    SELECT t.task_id, t.task_id || '.1', 'agent-1', {_uuid("t.id", 4)}::text, 0,
        t.started_at + p * interval '1 minute', 'INFO', 'task', 'stdout',
            'epoch ' || p || ': loss ' || 1.0 / p || repeat(' .', 40)
    FROM trials t, generate_series(1, {LINES}) p WHERE t.id >= :first_trial
    """,
    f"""
    INSERT INTO audit_log (at, user_id, username, via, address, action, object, details)
    SELECT now() - make_interval(secs => {YEAR_S}.0 * (1 - n::double precision / :rows)), :first_user + n % :users,
        'person-' || (1 + n % :users), 'user', '10.0.0.' || n % 250,
        (ARRAY['experiment.create', 'experiment.kill', 'experiment.patch', 'user.login',
            'checkpoint.delete'])[1 + n % 5],
        'experiment/' || n % :experiments, '{{}}'
    FROM generate_series(1, :rows) n
    """,
)
_NAMES = (
    """
    UPDATE trials SET hparams = hparams WHERE id IN (
        SELECT min(t.id) FROM trials t JOIN experiments e ON e.id = t.experiment_id
        WHERE e.id >= :first GROUP BY e.project_id)
    """,
    """
    UPDATE metric_names SET names = names WHERE experiment_id IN (
        SELECT min(id) FROM experiments WHERE id >= :first GROUP BY project_id)
    """,
)


@contextmanager
def _bulk_settings(database: Database) -> Iterator[None]:
    """Let PostgreSQL write without waiting for the disk; afterwards, write everything to it."""
    with database.autocommit() as tx:
        for name, value in _BULK_SETTINGS.items():
            tx.execute(text(f"ALTER SYSTEM SET {name} = '{value}'"))
        tx.execute(text("SELECT pg_reload_conf()"))
    try:
        yield
    finally:
        with database.autocommit() as tx:
            for name in _BULK_SETTINGS:
                tx.execute(text(f"ALTER SYSTEM RESET {name}"))
            tx.execute(text("SELECT pg_reload_conf()"))
            tx.execute(text("SET statement_timeout = 0"))
            tx.execute(text("CHECKPOINT"))


def fill(url: str, factor: int, prototype: int, *, only_work: bool = False) -> tuple[Size, float]:
    """Insert the rows of a size beside one paused experiment, the prototype; return them, and the seconds it took.

    With `only_work` there are only experiments and tasks, without their trials, runs and results."""
    start = time.perf_counter()
    database = Database(url)
    with _bulk_settings(database):
        with database.begin() as tx:
            params = _insert(tx, factor, prototype, only_work=only_work)
        with database.autocommit() as tx:
            tx.execute(text("SET statement_timeout = 0"))
            tx.execute(text("VACUUM ANALYZE"))
            mib = tx.execute(text("SELECT pg_database_size(current_database()) >> 20")).scalar_one()
    database.dispose()
    size = Size(factor, params["first"], params["first_user"], params["first_project"], mib)
    return size, time.perf_counter() - start


def _insert(tx: Tx, factor: int, prototype: int, *, only_work: bool) -> dict[str, int]:
    """Insert the rows of a size; return the first ids."""
    # Foreign keys are right by construction, and triggers of logs run for each row.
    tx.execute(text("SET LOCAL session_replication_role = replica"))
    tx.execute(text("SET LOCAL statement_timeout = 0"))
    indexes = tx.execute(_INDEXES, {"tables": list(BIG)}).all()
    for index in indexes:
        tx.execute(text(f"DROP INDEX {index.indexname}"))
    params = {
        "users": USERS * factor,
        "workspaces": WORKSPACES * factor,
        "projects": PROJECTS * factor,
    }
    params |= {
        "experiments": EXPERIMENTS * factor,
        "rows": AUDIT_ROWS * factor,
        "agents": AGENTS * factor,
    }
    params |= {"queued": EXPERIMENTS * factor * QUEUED // 100, "prototype": prototype}
    for statement in _ORGANIZATION:
        tx.execute(text(statement), params)
    for name, table in (("first_user", "users"), ("first_project", "projects")):
        params[name] = tx.execute(text(f"SELECT max(id) FROM {table}")).scalar_one() + 1
    params["first_user"] -= params["users"]
    params["first_project"] -= params["projects"]
    for table, values in _EXPERIMENTS.items():
        _repeat(tx, table, values, params)
    for statement in _TASKS:
        tx.execute(text(statement), params)
    last = tx.execute(text("SELECT max(id) FROM experiments")).scalar_one()
    params["first"] = last - params["experiments"] + 1
    params["first_queued"] = last - params["queued"] + 1
    params["first_trial"] = tx.execute(
        text("SELECT coalesce(max(id), 0) + 1 FROM trials")
    ).scalar_one()
    if only_work:
        for index in indexes:
            tx.execute(text(index.indexdef))
        return params
    for statement in (*_TRIALS, *_RESULTS[:1]):
        tx.execute(text(statement), params)
    run_values.keep(tx, tx.execute(_ENDED).scalars().all())
    for index in indexes:
        tx.execute(text(index.indexdef))
    for statement in _RESULTS[1:]:
        tx.execute(text(statement), params)
    # Triggers were off. An update without a change fires them for one trial and one experiment of each project.
    tx.execute(text("SET LOCAL session_replication_role = origin"))
    for statement in _NAMES:
        tx.execute(text(statement), params)
    counts.repair(tx, range(params["first"], last + 1))
    # Days are announced from the first work on, which began before this cluster did.
    tx.execute(text("DELETE FROM closed_days"))
    return params


def _repeat(tx: Tx, table: str, values: dict[str, str], params: dict[str, int]) -> None:
    """Insert copies of the prototype's row, with other values in some columns."""
    key = "job_id" if table == "experiments" else "id"
    own = "(SELECT job_id FROM experiments WHERE id = :prototype)"
    columns = tx.execute(_COLUMNS, {"table": table}).scalars().all()
    columns = [c for c in columns if table != "experiments" or c != "id"]
    selection = ", ".join(values.get(column, f"t.{column}") for column in columns)
    tx.execute(
        text(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {selection} FROM {table} t,"
            f" generate_series(1, :experiments) n WHERE t.{key} = {own} ORDER BY n"
        ),
        params,
    )
