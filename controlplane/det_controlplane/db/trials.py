"""Rows of trials and tasks."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.db.engine import Tx, as_json


@dataclass(slots=True)
class TrialRow:
    id: int
    experiment_id: int
    request_id: UUID
    state: TrialState
    task_id: str
    run_id: int
    restarts: int
    early_exit: str | None
    parked: bool
    stop_requested: bool
    seed: int
    blocked_agents: list[str]
    log_policy_matched: str | None


_COLUMNS = """id, experiment_id, request_id, state::text, task_id, run_id, restarts, early_exit, parked,
    stop_requested, seed, blocked_agents, log_policy_matched"""
_BY_ID = text(f"SELECT {_COLUMNS} FROM trials WHERE id = :id")
_BY_REQUEST = text(
    f"SELECT {_COLUMNS} FROM trials WHERE experiment_id = :experiment_id AND request_id = :request_id"
)
_LIVE = text(
    f"SELECT {_COLUMNS} FROM trials WHERE experiment_id = :experiment_id AND ended_at IS NULL ORDER BY id"
)


def _row(values: Any) -> TrialRow:
    fields = dict(values._mapping)
    fields["state"] = TrialState(fields["state"])
    return TrialRow(**fields)


def by_id(tx: Tx, trial_id: int) -> TrialRow | None:
    row = tx.row(_BY_ID, {"id": trial_id})
    return None if row is None else _row(row)


def by_request(tx: Tx, experiment_id: int, request_id: str) -> TrialRow | None:
    row = tx.row(_BY_REQUEST, {"experiment_id": experiment_id, "request_id": UUID(request_id)})
    return None if row is None else _row(row)


def live(tx: Tx, experiment_id: int) -> list[TrialRow]:
    return [_row(r) for r in tx.rows(_LIVE, {"experiment_id": experiment_id})]


@dataclass(frozen=True, slots=True)
class NewTrial:
    experiment_id: int
    request_id: UUID
    state: TrialState
    hparams: dict[str, Any]
    seed: int
    task_id: str
    warm_start_uuid: UUID | None
    job_id: UUID
    context_id: UUID | None


_INSERT = text("""
    INSERT INTO trials (experiment_id, request_id, state, hparams, seed, task_id, warm_start_uuid, started_at)
    VALUES (:experiment_id, :request_id, cast(:state AS trial_state), cast(:hparams AS jsonb), :seed, :task_id,
            :warm_start_uuid, :now)
    RETURNING id
""")
_INSERT_TASK = text("""
    INSERT INTO tasks (id, kind, job_id, trial_id, experiment_id, context_id, config, started_at)
    VALUES (:id, cast(:kind AS task_kind), :job_id, :trial_id, :experiment_id, :context_id,
            cast(:config AS jsonb), :now)
""")


def insert(tx: Tx, new: NewTrial, now: datetime) -> int:
    params = {name: getattr(new, name) for name in NewTrial.__slots__}
    params |= {"hparams": as_json(new.hparams), "state": new.state.value, "now": now}
    trial_id = int(tx.value(_INSERT, params))
    insert_task(
        tx, id=new.task_id, kind="TRIAL", job_id=new.job_id, trial_id=trial_id,
        experiment_id=new.experiment_id, context_id=new.context_id, config=None, now=now,
    )  # fmt: skip
    return trial_id


def insert_task(
    tx: Tx,
    *,
    id: str,
    kind: str,
    job_id: UUID,
    trial_id: int | None,
    experiment_id: int | None,
    context_id: UUID | None,
    config: dict[str, Any] | None,
    now: datetime,
) -> None:
    tx.run(
        _INSERT_TASK,
        {
            "id": id, "kind": kind, "job_id": job_id, "trial_id": trial_id, "now": now,
            "experiment_id": experiment_id, "context_id": context_id,
            "config": None if config is None else as_json(config),
        },
    )  # fmt: skip


_SET_STATE = text("""
    UPDATE trials SET state = cast(:state AS trial_state),
        ended_at = CASE WHEN :terminal THEN cast(:now AS timestamptz) END
    WHERE id = :id AND ended_at IS NULL
""")
_END_TASK = text("UPDATE tasks SET ended_at = :now WHERE id = :task_id AND ended_at IS NULL")


def set_state(tx: Tx, trial: TrialRow, state: TrialState, now: datetime) -> None:
    tx.run(
        _SET_STATE, {"id": trial.id, "state": state.value, "terminal": state.terminal, "now": now}
    )
    if state.terminal:
        end_task(tx, trial.task_id, now)
    trial.state = state


def end_task(tx: Tx, task_id: str, now: datetime) -> None:
    tx.run(_END_TASK, {"task_id": task_id, "now": now})


_UPDATE: dict[tuple[str, ...], Any] = {}


def update(tx: Tx, trial_id: int, **values: Any) -> None:
    """Set plain columns; the names are ours, never a caller's."""
    names = tuple(values)
    if names not in _UPDATE:
        assignments = ", ".join(f"{n} = :{n}" for n in names)
        _UPDATE[names] = text(f"UPDATE trials SET {assignments} WHERE id = :id")
    tx.run(_UPDATE[names], {"id": trial_id, **values})


_PROGRESS = text("""
    SELECT request_id, CASE WHEN ended_at IS NULL THEN coalesce(progress, 0) ELSE 1 END AS fraction
    FROM trials WHERE experiment_id = :id AND (progress IS NOT NULL OR ended_at IS NOT NULL)
""")


def progress_of(tx: Tx, experiment_id: int) -> dict[str, float]:
    return {str(r.request_id): float(r.fraction) for r in tx.rows(_PROGRESS, {"id": experiment_id})}
