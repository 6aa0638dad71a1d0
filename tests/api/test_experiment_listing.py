"""Lists and single experiments show the same values, and follow edits."""

import json
from typing import Any

from tests.support.api import (
    Caller,
    config_of,
    create,
    report_checkpoint,
    report_metrics,
    trial_of,
)

E = "/api/v1/experiments"


def made(user: Caller, **config: Any) -> int:
    body = {"config": config_of(**config), "activate": False}
    return int(user.post(E, body)["experiment"]["id"])


def test_edited_experiment_is_shown_with_its_changes(user: Caller) -> None:
    experiment_id = made(user, name="before")
    edits = {
        "name": 'new "name" \\ ü',
        "description": "what\nit is",
        "notes": "{}",
        "labels": ["a", 'b"c'],
        "checkpointStorage": {"saveTrialBest": 7},
    }
    user.done("PATCH", f"{E}/{experiment_id}", edits)
    single = user.get(f"{E}/{experiment_id}")
    (experiment,) = user.get(E)["experiments"]
    for shown_experiment in (single["experiment"], experiment):
        assert {k: shown_experiment[k] for k in ("name", "description", "notes")} == {
            k: edits[k] for k in ("name", "description", "notes")
        }
        assert sorted(shown_experiment["labels"]) == sorted(edits["labels"])
        assert shown_experiment["config"]["checkpoint_storage"]["save_trial_best"] == 7
    assert single["config"] == single["experiment"]["config"]


def test_configuration_shows_changed_name_description_and_labels(user: Caller) -> None:
    experiment_id = made(user, name="before", labels=["old"])
    edits = {"name": "after", "description": "what it is", "labels": ["b", "a"]}
    user.done("PATCH", f"{E}/{experiment_id}", edits)
    user.done("PUT", f"{E}/{experiment_id}/labels/c")
    user.done("DELETE", f"{E}/{experiment_id}/labels/a")
    experiment = user.get(f"{E}/{experiment_id}")["experiment"]
    fields = {key: experiment["config"][key] for key in ("name", "description", "labels")}
    assert fields == {"name": "after", "description": "what it is", "labels": ["b", "c"]}
    assert "before" in experiment["originalConfig"]


def test_list_equals_single_experiments_except_for_trial_ids(user: Caller) -> None:
    ids = [made(user, name=f"number {n}") for n in range(3)]
    experiments = user.get(E)["experiments"]
    single = [user.get(f"{E}/{i}")["experiment"] for i in ids]
    trials = [[t["id"] for t in user.get(f"{E}/{i}/trials")["trials"]] for i in ids]
    assert [e.pop("trialIds") for e in single] == trials
    assert [e.pop("trialIds") for e in experiments] == [[], [], []]
    for experiment in (*experiments, *single):
        del experiment["duration"]
    assert experiments == single
    assert [e["numTrials"] for e in experiments] == [1, 1, 1]


def test_list_shows_parts_of_the_configuration_unchanged(user: Caller) -> None:
    pachyderm = {
        "dataset": {"project": "p", "repo": "r", "commit": "c", "branch": "b", "token": "t"},
        "pachd": {"host": "h", "port": 1},
        "proxy": {"scheme": "http", "host": "h", "port": 2},
    }
    searcher = {"name": "random", "metric": "loss", "max_length": 5, "max_trials": 1}
    config = config_of(searcher=searcher, integrations={"pachyderm": pachyderm})
    text = config.replace("  lr: 0.1", "  z: 1\n  a: {y: 2, b: 'a \"quoted\" name'}")
    user.post(E, {"config": text, "activate": False})
    made(user)
    with_parts, plain = user.get(E)["experiments"]
    assert with_parts["searcherType"] == "random"
    assert with_parts["searcherMetric"] == "loss"
    stored_config = with_parts["config"]
    assert json.dumps(with_parts["hyperparameters"]) == json.dumps(stored_config["hyperparameters"])
    assert list(with_parts["hyperparameters"]) == ["z", "a"]
    assert list(with_parts["hyperparameters"]["a"]) == ["y", "b"]
    assert with_parts["pachydermIntegration"] == stored_config["integrations"]["pachyderm"]
    assert plain["pachydermIntegration"] is None


def test_pages_respect_limit_offset_and_order(user: Caller) -> None:
    ids = [made(user, name=f"number {n}") for n in range(5)]

    def page(**query: str) -> tuple[list[int], dict[str, int]]:
        response = user.ask("GET", E, query={k: [v] for k, v in query.items()}).json()
        return [e["id"] for e in response["experiments"]], response["pagination"]

    experiments, pagination = page(
        limit="2", offset="1", sortBy="SORT_BY_NAME", orderBy="ORDER_BY_DESC"
    )
    assert experiments == [ids[3], ids[2]]
    assert (pagination["startIndex"], pagination["endIndex"], pagination["total"]) == (1, 3, 5)
    assert page(limit="-1", offset="-2")[0] == ids[3:]
    assert page(limit="-2") == (
        [],
        {"offset": 0, "limit": -2, "startIndex": 0, "endIndex": 0, "total": 5},
    )
    assert page(users="determined", sortBy="SORT_BY_USER")[0] == ids


def test_revision_changes_only_with_the_experiment(user: Caller) -> None:
    experiment_id = create(user)
    trial_id = trial_of(user, experiment_id)["id"]
    revisions = [revision(user, experiment_id)]
    assert revision(user, experiment_id) == revisions[0]
    report_metrics(user, trial_id, "training", 1, {"loss": 1.0})
    revisions.append(revision(user, experiment_id))
    report_metrics(user, trial_id, "validation", 1, {"loss": 0.5})
    revisions.append(revision(user, experiment_id))
    report_checkpoint(user, experiment_id)
    revisions.append(revision(user, experiment_id))
    user.post(f"{E}/{experiment_id}/activate")
    revisions.append(revision(user, experiment_id))
    create(user)
    assert revision(user, experiment_id) == revisions[-1]
    assert len(set(revisions)) == len(revisions)


def revision(user: Caller, experiment_id: int) -> str:
    return str(user.get(f"{E}/{experiment_id}/revision")["revision"])
