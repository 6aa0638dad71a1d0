"""Read the experiments that a TensorBoard shows, and where they keep their files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from det_controlplane.db.engine.database import Database

_EXPERIMENTS = text("""
    SELECT e.id, e.state::text, e.user_id, p.workspace_id, e.config, e.sealed, w.checkpoint_storage AS of_workspace, w.sealed AS sealed_of_workspace,
           ARRAY(SELECT t.id FROM trials t WHERE t.experiment_id = e.id AND t.id = ANY(cast(:trials AS integer[])) ORDER BY t.id) AS trial_ids
    FROM experiments e JOIN projects p ON p.id = e.project_id JOIN workspaces w ON w.id = p.workspace_id
    WHERE e.id = ANY(cast(:experiments AS integer[]))
       OR e.id IN (SELECT t.experiment_id FROM trials t WHERE t.id = ANY(cast(:trials AS integer[])))
    ORDER BY e.id DESC
""")


@dataclass(frozen=True, slots=True)
class DrawnExperiment:
    """An experiment of which a TensorBoard shows all trials, or some."""

    id: int
    state: str
    user_id: int
    workspace_id: int
    config: dict[str, Any]
    sealed: str | None
    of_workspace: dict[str, Any] | None
    sealed_of_workspace: str | None
    trial_ids: list[int]


def drawn(db: Database, experiments: Sequence[int], trials: Sequence[int]) -> list[DrawnExperiment]:
    """Return the experiments that are named, or have trials that are; the newest first."""
    params = {"experiments": list(experiments), "trials": list(trials)}
    return [DrawnExperiment(**row._mapping) for row in db.read(_EXPERIMENTS, params)]
