"""Keys that users write keep their order: in the task, in trials, and after changes of the experiment."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from det_controlplane.db.engine.database import Database
from det_controlplane.services.experiments import creation, editing
from det_controlplane.services.maintenance import tick
from sqlalchemy import text

from tests.support.searching import OWNER, Agent, context

# Neither alphabetical nor in the order of length, which PostgreSQL's jsonb would make of them.
HPARAMS: dict[str, Any] = {
    "zoom": {"type": "categorical", "vals": [{"width": 1, "h": 2, "depth": 3}]},
    "lr": {"type": "double", "minval": 0, "maxval": 1},
    "steps": {"zz": {"type": "const", "val": {"normalize": 1, "crop": 2, "a": 3}}, "b": 1, "aa": 2},
}
PATHS = ["zoom.width", "zoom.h", "zoom.depth", "lr"] + [
    f"steps.{name}" for name in ("zz.normalize", "zz.crop", "zz.a", "b", "aa")
]
DATA = {"train": {"url": "x", "a": 1}, "b": 2}
SEARCHERS: dict[str, dict[str, Any]] = {
    "single": {},
    "random": {"max_trials": 2},
    "local_asha": {
        "max_trials": 4, "max_concurrent_trials": 4, "num_rungs": 2, "time_metric": "batches", "max_time": 8,
    },
}  # fmt: skip


def paths_of(value: Any, prefix: str = "") -> list[str]:
    if not isinstance(value, Mapping):
        return [prefix]
    return [
        path
        for key, inner in value.items()
        for path in paths_of(inner, f"{prefix}.{key}" if prefix else key)
    ]


def config(searcher: dict[str, Any]) -> str:
    whole = {
        "name": "ordered", "entrypoint": "python3 train.py", "hyperparameters": HPARAMS, "data": DATA,
        "searcher": {"metric": "loss", **searcher},
    }  # fmt: skip
    return yaml.safe_dump(whole, sort_keys=False)


def orders_of_trials(database: Database, experiment_id: int) -> list[list[str]]:
    query = text("SELECT hparams FROM trials WHERE experiment_id = :id ORDER BY id")
    return [paths_of(row.hparams) for row in database.read(query, {"id": experiment_id})]


@pytest.mark.parametrize("name", SEARCHERS)
def test_task_receives_hyperparameters_in_the_users_order(database: Database, name: str) -> None:
    ctx = context(database)
    agent = Agent.joined(ctx)
    config_text = config({"name": name, **SEARCHERS[name]})
    experiment = creation.create(ctx, OWNER, creation.Submission(config=config_text))
    assert experiment.experiment_id is not None
    changes = editing.Changes({}, None, {"max_slots": 5}, {"save_trial_best": 3})
    editing.patch(ctx, OWNER, experiment.experiment_id, changes)
    tick.run(ctx)
    env = agent.poll()[0]["spec"]["env"]
    assert paths_of(json.loads(env["DET_HPARAMS"])) == PATHS
    document = json.loads(env["DET_EXPERIMENT_CONFIG"])
    assert list(document["hyperparameters"]) == list(HPARAMS)
    assert paths_of(document["data"]) == ["train.url", "train.a", "b"]
    assert document["resources"]["max_slots"] == 5
    assert document["checkpoint_storage"]["save_trial_best"] == 3
    assert set(map(tuple, orders_of_trials(database, experiment.experiment_id))) == {tuple(PATHS)}
