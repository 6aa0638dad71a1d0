"""List the workloads of a trial as clients do: one entry for each training, validation and checkpoint."""

from typing import Any

import pytest

from tests.support.api import Caller, create, report_checkpoint, report_metrics, trial_of

BATCHES = [{"loss": 0.4}, {"loss": 0.6}]


@pytest.fixture
def trial_id(user: Caller) -> int:
    """A trial that has trained and saved twice, and validated once."""
    experiment_id = create(user)
    stored_trial_id: int = trial_of(user, experiment_id)["id"]
    for steps in (2, 4):
        report_checkpoint(user, experiment_id, steps)
        report_metrics(user, stored_trial_id, "training", steps, {"loss": 0.5})
    report_metrics(user, stored_trial_id, "validation", 2, {"loss": 0.25})
    report_metrics(user, stored_trial_id, "system", 2, {"gpu": 0.5})
    return stored_trial_id


def report_batches(caller: Caller, trial_id: int, steps: int) -> None:
    values = {"avgMetrics": {"loss": 0.5}, "batchMetrics": BATCHES}
    inner = {"trialId": trial_id, "trialRunId": 0, "stepsCompleted": steps, "metrics": values}
    caller.post(f"/api/v1/trials/{trial_id}/metrics", {"group": "training", "metrics": inner})


def done(caller: Caller, trial_id: int, **query: Any) -> list[tuple[str, int]]:
    """Kind and step of each entry."""
    workloads = caller.get(f"/api/v1/trials/{trial_id}/workloads", **query)["workloads"]
    assert all(len(entry) == 1 for entry in workloads), workloads
    return [(kind, inner["totalBatches"]) for entry in workloads for kind, inner in entry.items()]


def test_each_workload_of_a_step_is_a_separate_entry(user: Caller, trial_id: int) -> None:
    first = [("training", 2), ("validation", 2), ("checkpoint", 2)]
    later_workloads = [("training", 4), ("checkpoint", 4)]
    assert done(user, trial_id) == [*first, *later_workloads]
    assert done(user, trial_id, orderBy="ORDER_BY_DESC") == [*first, *later_workloads][::-1]


def test_a_page_counts_entries(user: Caller, trial_id: int) -> None:
    assert done(user, trial_id, limit=2, offset=1) == [("validation", 2), ("checkpoint", 2)]
    pagination = user.get(f"/api/v1/trials/{trial_id}/workloads", limit=2)["pagination"]
    assert pagination["total"] == 5


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("CHECKPOINT", [("checkpoint", 2), ("checkpoint", 4)]),
        ("VALIDATION", [("validation", 2)]),
        ("CHECKPOINT_OR_VALIDATION", [("validation", 2), ("checkpoint", 2), ("checkpoint", 4)]),
    ],
)
def test_filter_returns_entries_of_its_kinds(
    user: Caller, trial_id: int, chosen: str, expected: list[tuple[str, int]]
) -> None:
    assert done(user, trial_id, filter=f"FILTER_OPTION_{chosen}") == expected


def test_deleted_checkpoints_are_omitted_on_request(user: Caller, trial_id: int) -> None:
    entries = user.get(f"/api/v1/trials/{trial_id}/workloads")["workloads"]
    uuid = next(entry["checkpoint"]["uuid"] for entry in entries if "checkpoint" in entry)
    empty = {"checkpoints": [{"uuid": uuid, "resources": {"resources": {}}}]}
    user.done("PATCH", "/api/v1/checkpoints", empty)
    assert ("checkpoint", 2) in done(user, trial_id)
    assert ("checkpoint", 2) not in done(user, trial_id, removeDeletedCheckpoints=True)


def test_rejects_unknown_filter_order_or_type(user: Caller, trial_id: int) -> None:
    path = f"/api/v1/trials/{trial_id}/workloads"
    for name in ("filter", "orderBy", "metricType"):
        response = user.ask("GET", path, query={name: ["UP"]})
        assert response.status == 400
        assert f"{name} must be one of" in response.error


@pytest.fixture
def measured(user: Caller) -> int:
    """A trial with validation and training metrics that disagree about the best of its three steps."""
    experiment_id = create(user)
    stored_trial_id: int = trial_of(user, experiment_id)["id"]
    for steps, validation, training in ((1, 10.0, 0.3), (2, 9.0, 0.1), (3, 0.5, 0.2)):
        report_metrics(user, stored_trial_id, "training", steps, {"loss": training})
        report_metrics(user, stored_trial_id, "validation", steps, {"loss": validation})
    report_checkpoint(user, experiment_id, 4)
    return stored_trial_id


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [3, 2, 1]),
        ({"group": "training"}, [2, 3, 1]),
        ({"metricType": "METRIC_TYPE_TRAINING"}, [2, 3, 1]),
        ({"metricType": "METRIC_TYPE_TRAINING", "group": "validation"}, [3, 2, 1]),
        ({"orderBy": "ORDER_BY_DESC"}, [1, 2, 3]),
    ],
)
def test_entries_are_sorted_by_a_metric_of_their_step(
    user: Caller, measured: int, query: dict[str, str], expected: list[int]
) -> None:
    """A step without the metric comes last in either order."""
    kinds = done(user, measured, sortKey="loss", **query)
    assert [steps for kind, steps in kinds if kind == "validation"] == expected
    assert kinds[-1] == ("checkpoint", 4)
    assert done(user, measured, sortKey="batches", limit=1) == [("training", 1)]


def test_all_entries_are_listed_without_a_limit(user: Caller, measured: int) -> None:
    for steps in range(5, 110):
        report_metrics(user, measured, "training", steps, {"loss": 1.0})
    assert len(done(user, measured)) == len(done(user, measured, limit=0)) == 112
    assert done(user, measured, offset=-1) == [("training", 109)]


def test_batch_metrics_are_returned_on_request(user: Caller, trial_id: int) -> None:
    report_batches(user, trial_id, 6)

    def last(**query: Any) -> Any:
        workloads = user.get(f"/api/v1/trials/{trial_id}/workloads", **query)["workloads"]
        return workloads[-1]["training"]["metrics"]["batchMetrics"]

    assert last() == []
    assert last(includeBatchMetrics=True) == BATCHES


def test_stream_has_null_for_missing_batch_metrics(user: Caller, trial_id: int) -> None:
    report_batches(user, trial_id, 6)
    query = {"trialIds": [str(trial_id)]}
    lines = user.lines("/api/v1/trials/metrics/training_metrics", query)
    batch_metrics = [
        report["metrics"]["batch_metrics"] for part in lines for report in part["metrics"]
    ]
    assert batch_metrics == [None, None, BATCHES]
