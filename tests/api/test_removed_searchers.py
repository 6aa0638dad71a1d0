"""Experiments with searchers that Determined removed are shown, and only new ones are refused."""

import json
from typing import Any

import pytest
import yaml
from sqlalchemy import text

from tests.support.api import Api, Caller, create, trial_of

LENGTH = {"max_length": {"batches": 800}, "metric": "loss", "smaller_is_better": True}
REMOVED = {
    "adaptive": {"budget": {"batches": 6400}, "divisor": 4, "mode": "standard", "max_rungs": 5},
    "adaptive_simple": {"max_trials": 9, "divisor": 4, "mode": "standard", "max_rungs": 5},
    "sync_halving": {"budget": {"batches": 6400}, "divisor": 4, "num_rungs": 3},
}


def stored(api: Api, user: Caller, name: str) -> tuple[int, int]:
    """Store an experiment that ended with an earlier version; return its id and the id of its trial."""
    experiment_id = create(user, activate=True)
    trial_id = int(trial_of(user, experiment_id)["id"])
    user.post(f"/api/v1/experiments/{experiment_id}/kill")
    with api.ctx.db.begin() as tx:
        tx.execute(
            text(
                "UPDATE experiments SET config = jsonb_set(CAST(config AS jsonb), "
                "'{searcher}', CAST(:searcher AS jsonb)) WHERE id = :id"
            ),
            {
                "searcher": json.dumps({"name": name, **LENGTH, **REMOVED[name]}),
                "id": experiment_id,
            },
        )
    return experiment_id, trial_id


@pytest.mark.parametrize("name", REMOVED)
def test_stored_experiment_with_a_removed_searcher_is_shown(
    api: Api, user: Caller, name: str
) -> None:
    experiment_id, trial_id = stored(api, user, name)
    experiment = user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]
    assert experiment["config"]["searcher"]["name"] == name
    for path in (
        "/api/v1/experiments",
        f"/api/v1/experiments/{experiment_id}/trials",
        f"/api/v1/experiments/{experiment_id}/checkpoints",
        f"/api/v1/trials/{trial_id}",
        f"/api/v1/trials/{trial_id}/workloads",
    ):
        user.get(path)
    user.post("/api/v1/experiments-search", {"projectId": 1})
    user.post("/api/v1/runs", {"projectId": 1})
    user.post(f"/api/v1/experiments/{experiment_id}/archive")
    user.post("/api/v1/tensorboards", {"experimentIds": [experiment_id]})
    user.done("PATCH", f"/api/v1/experiments/{experiment_id}", {"notes": "read"})
    user.done("DELETE", f"/api/v1/experiments/{experiment_id}")
    api.tick()
    (task,) = (
        t
        for t in user.get("/api/v1/tasks")["allocationIdToSummary"].values()
        if t["taskType"] == "TASK_TYPE_CHECKPOINT_GC"
    )
    assert f"{experiment_id}" in task["name"]


@pytest.mark.parametrize("name", REMOVED)
def test_rejects_fork_with_a_removed_searcher(api: Api, user: Caller, name: str) -> None:
    experiment_id, _ = stored(api, user, name)
    config: Any = user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]["config"]
    answer = user.ask(
        "POST", "/api/v1/experiments", {"config": yaml.safe_dump(config), "parentId": experiment_id}
    )
    assert answer.status == 400
    assert f"{name} was removed; use a" in answer.error
