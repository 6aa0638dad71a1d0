"""Read and change the rows of an ended experiment that is continued."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import func, select, text, update

from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema import (
    experiments,
    projects,
    searches,
    tasks,
    trials,
    workspaces,
)

_REQUEUE = text("""
    UPDATE jobs SET position = floor(extract(epoch FROM cast(:now AS timestamptz)) * 1000000) WHERE id = :id
""")


@dataclass(frozen=True, slots=True)
class EndedExperiment:
    config: dict[str, Any]
    sealed: str | None
    user_id: int
    archived: bool
    unmanaged: bool
    parent_archived: bool
    project_id: int
    workspace_id: int
    workspace_storage: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class EndedTrial:
    id: int
    request_id: UUID
    state: TrialState
    tasks: int  # how many it has had

    def next_task(self, experiment_id: int) -> str:
        return f"{experiment_id}.{self.request_id}-{self.tasks}"


def experiment(tx: Tx, experiment_id: int) -> EndedExperiment | None:
    e, parents = experiments.c, projects.c.archived | workspaces.c.archived
    of_workspace = (projects.c.id, workspaces.c.id, workspaces.c.checkpoint_storage)
    query = select(e.config, e.sealed, e.user_id, e.archived, e.unmanaged, parents, *of_workspace)
    query = query.join_from(experiments, projects)
    query = query.join(workspaces, workspaces.c.id == projects.c.workspace_id)
    row = tx.execute(query.where(e.id == experiment_id)).first()
    return None if row is None else EndedExperiment(*row)


def trials_of(tx: Tx, experiment_id: int) -> list[EndedTrial]:
    task_count = select(func.count()).where(tasks.c.trial_id == trials.c.id).scalar_subquery()
    query = select(trials.c.id, trials.c.request_id, trials.c.state, task_count)
    of_experiment = query.where(trials.c.experiment_id == experiment_id)
    return [EndedTrial(*row) for row in tx.execute(of_experiment.order_by(trials.c.id))]


def reopen(
    tx: Tx,
    experiment_id: int,
    job_id: UUID,
    config: dict[str, Any],
    sealed: str | None,
    original: str | None,
    now: datetime,
) -> None:
    """Make an experiment active with a configuration, last in the queue; `original` is its new text, if any."""
    values: dict[str, Any] = {
        "state": ExperimentState.ACTIVE, "ended_at": None, "progress": 0, "error": "", "config": config,
        "sealed": sealed,
    }  # fmt: skip
    if original is not None:
        values["original_config"] = original
    tx.execute(update(experiments).where(experiments.c.id == experiment_id).values(values))
    tx.execute(_REQUEUE, {"id": job_id, "now": now})
    of_experiment = searches.c.experiment_id == experiment_id
    tx.execute(update(searches).where(of_experiment).values(closed=False))


def reopen_trial(tx: Tx, trial_id: int, task_id: str) -> None:
    values: dict[str, Any] = {
        "state": TrialState.ACTIVE, "ended_at": None, "restarts": 0, "early_exit": None, "parked": False,
        "stop_requested": False, "stopped_early": False, "op_completed": False, "progress": None, "log_policy_matched": None,
        "blocked_agents": [], "task_id": task_id,
    }  # fmt: skip
    tx.execute(update(trials).where(trials.c.id == trial_id).values(values))


def set_plan(tx: Tx, trial_id: int, hparams: dict[str, Any], train_to: float | None) -> None:
    statement = update(trials).where(trials.c.id == trial_id)
    tx.execute(statement.values(hparams=hparams, train_to=train_to))
