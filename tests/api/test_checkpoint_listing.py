"""Checkpoints in the order of a metric."""

from typing import Any

import pytest

from tests.support.api import Caller, create_ended, report_checkpoint, report_metrics, trial_of

# The order of steps differs from the order of every metric.
REPORTED: dict[int, dict[str, Any]] = {
    1: {"accuracy": 0.5, "loss": 3},
    2: {"accuracy": 0.9, "loss": "Infinity"},
    3: {"accuracy": 0.7, "loss": 1},
    4: {"loss": "1.0.0"},
}


@pytest.fixture
def trial_id(user: Caller) -> int:
    """A trial with a checkpoint at each step that reported, and one more that has no validation."""
    experiment_id = create_ended(user)
    stored_trial_id: int = trial_of(user, experiment_id)["id"]
    for steps, metrics in REPORTED.items():
        report_checkpoint(user, experiment_id, steps)
        assert report_metrics(user, stored_trial_id, "validation", steps, metrics).status == 200
    report_checkpoint(user, experiment_id, 5)
    return stored_trial_id


def steps_of(caller: Caller, path: str, **query: str) -> list[int]:
    checkpoints = caller.get(f"/api/v1/{path}/checkpoints", **query)["checkpoints"]
    return [c["metadata"]["steps_completed"] for c in checkpoints]


@pytest.mark.parametrize(
    ("metric", "order", "best"),
    [
        ("accuracy", "DESC", [2, 3, 1]),
        ("accuracy", "ASC", [1, 3, 2]),
        ("loss", "ASC", [3, 1]),
        ("loss", "DESC", [1, 3]),
    ],
)
def test_checkpoints_without_the_sort_metric_come_last(
    user: Caller, trial_id: int, metric: str, order: str, best: list[int]
) -> None:
    trial = user.get(f"/api/v1/trials/{trial_id}")["trial"]
    for path in (f"trials/{trial_id}", f"experiments/{trial['experimentId']}"):
        steps = steps_of(user, path, sortByMetric=metric, orderBy=f"ORDER_BY_{order}")
        assert steps[: len(best)] == best
        assert sorted(steps) == [1, 2, 3, 4, 5]


def test_checkpoints_sorted_by_a_metric_begin_with_the_best(user: Caller, trial_id: int) -> None:
    query = {"sortByMetric": "accuracy", "orderBy": "ORDER_BY_DESC", "limit": "1"}
    assert steps_of(user, f"trials/{trial_id}", **query) == [2]
    assert steps_of(user, f"trials/{trial_id}", **query, offset="1") == [3]


def test_checkpoint_with_a_text_searcher_metric_comes_last(user: Caller, trial_id: int) -> None:
    query = {"sortByAttr": "SORT_BY_SEARCHER_METRIC", "orderBy": "ORDER_BY_ASC"}
    assert steps_of(user, f"trials/{trial_id}", **query)[:2] == [3, 1]


def test_rejects_sorting_by_an_attribute_and_a_metric(user: Caller, trial_id: int) -> None:
    query = {"sortByAttr": "SORT_BY_UUID", "sortByMetric": "loss"}
    response = user.ask("GET", f"/api/v1/trials/{trial_id}/checkpoints", query=query)
    assert (response.status, "give one" in response.error) == (400, True)


def test_checkpoint_of_a_managed_experiment_has_its_storage_id(user: Caller) -> None:
    """Experiments that only keep different checkpoints there have the same storage."""
    storage = {"type": "directory", "container_path": "/elsewhere"}
    configured: list[dict[str, Any]] = [
        {},
        {"checkpoint_storage": {"save_trial_latest": 7}},
        {"checkpoint_storage": storage},
    ]
    ids = []
    for more in configured:
        checkpoint = report_checkpoint(user, create_ended(user, **more))
        ids.append(user.get(f"/api/v1/checkpoints/{checkpoint}")["checkpoint"]["storageId"])
    assert ids[0] is not None
    assert ids[0] == ids[1] != ids[2]
    response = user.post("/api/v1/runs/start", {"runId": 1, "checkpointStorage": storage})
    assert response["storageId"] == ids[2]
