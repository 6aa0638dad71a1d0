"""Rows of experiments, jobs and searches."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import TextClause, bindparam, func, null, select, text, update

from det_controlplane.core.documents import MOST_LISTED_LABELS
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.db.engine.database import Database, Tx, as_json
from det_controlplane.db.experiments import contexts
from det_controlplane.db.experiments.contexts import NewContext
from det_controlplane.db.schema import experiments, projects, trials, workspaces


@dataclass(slots=True)
class ExperimentRow:
    """An experiment under its row lock. `config` is read apart: hot paths never need it."""

    id: int
    job_id: UUID
    state: ExperimentState
    pool: str
    seed: int
    seq: int
    snapshot_seq: int
    metric: str
    smaller_is_better: bool
    max_restarts: int
    slots_per_trial: int
    least_slots: int  # fewer than `slots_per_trial` for elastic trials
    best_metric: float | None
    progress: float | None
    unmanaged: bool
    user_id: int
    context_id: UUID | None


_LEAST_SLOTS = """coalesce(({0}config #>> '{{resources,min_slots_per_trial}}')::integer, {0}slots_per_trial) AS least_slots"""
# The columns of `ExperimentRow`, from experiments e with job j and search s.
COLUMNS = f"""e.id, e.job_id, e.state::text, j.pool, e.seed, s.seq, s.snapshot_seq, e.metric_name AS metric,
    e.smaller_is_better, e.max_restarts, e.slots_per_trial, {_LEAST_SLOTS.format("e.")}, e.best_metric, e.progress, e.unmanaged, e.user_id, e.context_id"""
# Not FOR UPDATE: rows that only refer to the experiment may be added meanwhile.
_LOCK = text(f"""
    SELECT {COLUMNS} FROM experiments e JOIN jobs j ON j.id = e.job_id JOIN searches s ON s.experiment_id = e.id
    WHERE e.id = :id FOR NO KEY UPDATE OF e, s
""")


_BY_KEY = select(experiments.c.id).where(experiments.c.idempotency_key == bindparam("key"))
_BY_EXTERNAL_ID = select(experiments.c.id).where(
    experiments.c.external_id == bindparam("external_id")
)
_EXISTS = select(experiments.c.id).where(experiments.c.id == bindparam("id"))
_TRIAL_EXISTS = select(trials.c.id).where(trials.c.id == bindparam("id"))


def lock(tx: Tx, experiment_id: int) -> ExperimentRow | None:
    row = tx.execute(_LOCK, {"id": experiment_id}).first()
    if row is None:
        return None
    values = dict(row._mapping)
    values["state"] = ExperimentState(values["state"])
    return ExperimentRow(**values)


_CONFIG = text("SELECT config FROM experiments WHERE id = :id")


def config(tx: Tx, experiment_id: int) -> dict[str, Any]:
    experiment_config: dict[str, Any] = tx.execute(_CONFIG, {"id": experiment_id}).scalar_one()
    return experiment_config


_SEARCHER_NAME = text("SELECT searcher_name FROM experiments WHERE id = :id")


def searcher_name(tx: Tx, experiment_id: int) -> str:
    return str(tx.execute(_SEARCHER_NAME, {"id": experiment_id}).scalar())


_JOB = """INSERT INTO jobs (id, kind, name, pool, priority, weight, max_slots, position, user_id, workspace_id, submitted_at)
    VALUES (:job_id, cast(:kind AS job_kind), :name, :pool, :priority, :weight, :max_slots,
            floor(extract(epoch FROM cast(:now AS timestamptz)) * 1000000), :user_id, :workspace_id, :now)"""
_INSERT_JOB = text(_JOB)


def insert_job(
    tx: Tx,
    *,
    id: UUID,
    kind: str,
    name: str,
    pool: str,
    priority: int | None,
    weight: float,
    max_slots: int | None,
    user_id: int,
    workspace_id: int,
    now: datetime,
) -> None:
    tx.execute(
        _INSERT_JOB,
        {
            "job_id": id, "kind": kind, "name": name, "pool": pool, "priority": priority,
            "weight": weight, "max_slots": max_slots, "user_id": user_id,
            "workspace_id": workspace_id, "now": now,
        },
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class NewExperiment:
    job_id: UUID
    config: dict[str, Any]
    sealed: str
    original_config: str
    name: str
    description: str
    labels: list[str]
    user_id: int
    project_id: int
    workspace_id: int
    context_id: UUID | None
    parent_id: int | None
    unmanaged: bool
    external_id: str | None
    seed: int
    log_retention_days: int | None
    idempotency_key: str | None
    pool: str
    priority: int | None
    weight: float
    max_slots: int | None


def _insert_with(context: str) -> TextClause:
    return text(f"""
        WITH job AS ({_JOB}), {context}
        made AS (
            INSERT INTO experiments (job_id, state, config, sealed, original_config, name, description, labels, user_id, project_id,
                context_id, parent_id, unmanaged, external_id, seed, log_retention_days, idempotency_key, created_at, started_at)
            VALUES (:job_id, cast(:state AS experiment_state), cast(:config AS json), :sealed, :original_config, :name, :description,
                cast(:labels AS text[]), :user_id, :project_id, :context_id, :parent_id, :unmanaged, :external_id, :seed,
                :log_retention_days, :idempotency_key, :now, :now)
            RETURNING id, metric_name, smaller_is_better, max_restarts, slots_per_trial, {_LEAST_SLOTS.format("")},
                json_build_object('searcher', config->'searcher', 'hyperparameters', config->'hyperparameters') AS searched),
        search AS (INSERT INTO searches (experiment_id, cost_limit_usd)
            SELECT id, (searched #>> '{{searcher,stop_when,or_cost_above}}')::double precision FROM made)
        SELECT * FROM made
    """)


_INSERT = _insert_with("")
_INSERT_WITH_CONTEXT = _insert_with(f"context AS ({contexts.INSERT}),")


def insert(
    tx: Tx, new: NewExperiment, context: NewContext | None, state: ExperimentState, now: datetime
) -> tuple[ExperimentRow, dict[str, Any]]:
    """Insert an experiment with its job, its search and, where one is sent along, its model definition.

    Return its row, and the part of the configuration that the search reads, as the database will return it."""
    params = {name: getattr(new, name) for name in NewExperiment.__slots__}
    params |= {
        "kind": "EXPERIMENT",
        "config": as_json(new.config),
        "state": state.value,
        "now": now,
    }
    if context is not None:
        params |= context.params()
    result = tx.execute(_INSERT if context is None else _INSERT_WITH_CONTEXT, params).first()
    assert result is not None
    row = ExperimentRow(
        id=result.id, job_id=new.job_id, state=state, pool=new.pool, seed=new.seed, seq=0, snapshot_seq=0,
        metric=result.metric_name, smaller_is_better=result.smaller_is_better, max_restarts=result.max_restarts,
        slots_per_trial=result.slots_per_trial, least_slots=result.least_slots, best_metric=None, progress=None, unmanaged=new.unmanaged,
        user_id=new.user_id, context_id=params["context_id"],
    )  # fmt: skip
    return row, result.searched


_SET_STATE = text("""
    UPDATE experiments SET state = cast(:state AS experiment_state),
        ended_at = CASE WHEN :terminal THEN coalesce(ended_at, :now) END,
        progress = CASE WHEN :state = 'COMPLETED' THEN 1 ELSE progress END,
        error = CASE WHEN :error = '' THEN error ELSE :error END
    WHERE id = :id
""")


def set_state(tx: Tx, id: int, state: ExperimentState, now: datetime, error: str = "") -> None:
    tx.execute(
        _SET_STATE,
        {"id": id, "state": state.value, "terminal": state.terminal, "now": now, "error": error},
    )


_SET_PROGRESS = text("UPDATE experiments SET progress = :progress WHERE id = :id")


def set_progress(tx: Tx, id: int, progress: float) -> None:
    tx.execute(_SET_PROGRESS, {"id": id, "progress": progress})


def by_idempotency_key(db: Database, key: str) -> int | None:
    rows = db.read(_BY_KEY, {"key": key})
    return rows[0].id if rows else None


def by_external_id(db: Database, external_id: str) -> int | None:
    rows = db.read(_BY_EXTERNAL_ID, {"external_id": external_id})
    return rows[0].id if rows else None


def trial_by_external_id(tx: Tx, experiment: str, trial: str) -> int | None:
    query = select(trials.c.id).join_from(trials, experiments)
    condition = (experiments.c.external_id == experiment) & (trials.c.external_id == trial)
    return tx.execute(query.where(condition)).scalar()


def active_of(db: Database, user_id: int) -> list[int]:
    """Return the experiments of a user that run or wait to."""
    query = text(
        "SELECT id FROM experiments WHERE user_id = :user_id AND state = 'ACTIVE' ORDER BY id"
    )
    return [row.id for row in db.read(query, {"user_id": user_id})]


def exists(tx: Tx, experiment_id: int) -> bool:
    return tx.execute(_EXISTS, {"id": experiment_id}).first() is not None


def trial_exists(tx: Tx, trial_id: int) -> bool:
    return tx.execute(_TRIAL_EXISTS, {"id": trial_id}).first() is not None


def best_metric(tx: Tx, experiment_id: int) -> float | None:
    query = select(experiments.c.best_metric).where(experiments.c.id == experiment_id)
    return tx.execute(query).scalar()


def labels(tx: Tx, project_id: int, within: Sequence[int] | None) -> list[str]:
    """Return the labels of a project's experiments (0: of all in some workspaces), the most used first."""
    each = select(func.unnest(experiments.c.labels).label("label"))
    if project_id:
        each = each.where(experiments.c.project_id == project_id)
    if within is not None:
        there = select(projects.c.id).where(projects.c.workspace_id.in_(within))
        each = each.where(experiments.c.project_id.in_(there))
    label = each.subquery().c.label
    query = (
        select(label).group_by(label).order_by(func.count().desc(), label).limit(MOST_LISTED_LABELS)
    )
    return list(tx.execute(query).scalars())


def lock_labels(tx: Tx, experiment_id: int) -> list[str] | None:
    # Earlier versions stored the label `null` as none.
    labels = func.array_remove(experiments.c.labels, null(), type_=experiments.c.labels.type)
    query = select(labels).where(experiments.c.id == experiment_id)
    return tx.execute(query.with_for_update()).scalar()


def owner(tx: Tx, experiment_id: int) -> int | None:
    return tx.execute(
        select(experiments.c.user_id).where(experiments.c.id == experiment_id)
    ).scalar()


def is_archived(tx: Tx, experiment_id: int) -> bool:
    """Return whether the experiment is archived, or its project or workspace."""
    archived = experiments.c.archived | projects.c.archived | workspaces.c.archived
    query = select(archived).join_from(experiments, projects)
    query = query.join(workspaces, workspaces.c.id == projects.c.workspace_id)
    return bool(tx.execute(query.where(experiments.c.id == experiment_id)).scalar())


def change(tx: Tx, experiment_id: int, **values: Any) -> None:
    tx.execute(update(experiments).where(experiments.c.id == experiment_id).values(values))


def change_described(tx: Tx, experiment_id: int, **values: Any) -> None:
    """Change name, description or labels of an experiment that this transaction has locked, also in its stored configuration."""
    change(tx, experiment_id, config=config(tx, experiment_id) | values, **values)


def set_config(tx: Tx, experiment_id: int, section: str, name: str, value: Any) -> None:
    """Change one value of the stored configuration of an experiment that this transaction has locked."""
    document = config(tx, experiment_id)
    change(tx, experiment_id, config=document | {section: document[section] | {name: value}})


def deletion_failed(tx: Tx, experiment_id: int, error: str) -> None:
    deleting = (experiments.c.id == experiment_id) & (
        experiments.c.state == ExperimentState.DELETING
    )
    values = {"state": ExperimentState.DELETE_FAILED, "error": error}
    tx.execute(update(experiments).where(deleting).values(values))
