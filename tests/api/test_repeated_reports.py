"""A report with a lost answer is sent again, and the second one has no effect."""

import uuid
from typing import Any

import pytest

from tests.api.test_remote_search import (
    ONE,
    complete,
    create_trial,
    kinds,
    operate,
    operation_of,
    searched,
    train,
)
from tests.support.api import Caller, create, report_checkpoint, report_metrics, trial_of


@pytest.fixture
def experiment_id(user: Caller) -> int:
    return create(user)


def stored(caller: Caller, trial_id: int) -> tuple[Any, Any]:
    trial = caller.get(f"/api/v1/trials/{trial_id}")["trial"]
    response = caller.get(f"/api/v1/trials/{trial_id}/workloads", includeBatchMetrics=True)
    return trial["summaryMetrics"], response["workloads"]


def repeat(caller: Caller, path: str, body: dict[str, Any], key: str | None = None) -> None:
    headers = {} if key is None else {"idempotency-key": key}
    for _ in range(2):
        response = caller.ask("POST", path, body, headers=headers)
        assert response.status == 200, response.body


@pytest.mark.parametrize("group", ["training", "validation", "inference"])
def test_metrics_of_a_step_are_stored_once(user: Caller, experiment_id: int, group: str) -> None:
    trial_id = trial_of(user, experiment_id)["id"]
    metrics = {"loss": 0.1 + 0.2, "odd": "NaN", "name": "x", "big": 1e22}
    report_metrics(user, trial_id, group, 2, metrics)
    before = stored(user, trial_id)
    assert report_metrics(user, trial_id, group, 2, metrics).status == 200
    assert stored(user, trial_id) == before


def test_metrics_of_batches_are_stored_once(user: Caller, experiment_id: int) -> None:
    trial_id = trial_of(user, experiment_id)["id"]
    values = {"avgMetrics": {"loss": 0.5}, "batchMetrics": [{"loss": 0.4}, {"loss": 0.6}]}
    inner = {"trialId": trial_id, "trialRunId": 0, "stepsCompleted": 2, "metrics": values}
    body = {"group": "training", "metrics": inner}
    user.post(f"/api/v1/trials/{trial_id}/metrics", body)
    before = stored(user, trial_id)
    user.post(f"/api/v1/trials/{trial_id}/metrics", body)
    assert stored(user, trial_id) == before


@pytest.mark.parametrize(
    ("group", "summary"), [("system", "system"), ("validation", "validation_metrics")]
)
def test_metrics_without_a_step_are_stored_once_for_each_key(
    user: Caller, experiment_id: int, group: str, summary: str
) -> None:
    trial_id = trial_of(user, experiment_id)["id"]
    values = {"trialId": trial_id, "trialRunId": 0, "metrics": {"avgMetrics": {"gpu": 0.5}}}
    for key in ("one", "two"):
        body = {"group": group, "metrics": values}
        repeat(user, f"/api/v1/trials/{trial_id}/metrics", body, key)
    trial = user.get(f"/api/v1/trials/{trial_id}")["trial"]
    assert trial["summaryMetrics"][summary]["gpu"]["count"] == 2


def checkpoint_of(caller: Caller, checkpoint: str) -> Any:
    return caller.get(f"/api/v1/checkpoints/{checkpoint}")["checkpoint"]


def report_again(caller: Caller, experiment_id: int, checkpoint: str) -> None:
    body = {
        "uuid": checkpoint, "taskId": trial_of(caller, experiment_id)["taskId"],
        "resources": {"state": "1"}, "metadata": {"steps_completed": 2}, "state": "STATE_COMPLETED",
    }  # fmt: skip
    caller.post("/api/v1/checkpoints", body)


def test_a_checkpoint_is_stored_once(user: Caller, experiment_id: int) -> None:
    checkpoint = report_checkpoint(user, experiment_id)
    before = checkpoint_of(user, checkpoint)
    report_again(user, experiment_id, checkpoint)
    assert checkpoint_of(user, checkpoint) == before


def test_repeated_checkpoint_report_does_not_reset_metadata(
    user: Caller, experiment_id: int
) -> None:
    checkpoint = report_checkpoint(user, experiment_id)
    body = {"checkpoint": {"uuid": checkpoint, "metadata": {"steps_completed": 2, "by": "ada"}}}
    user.post(f"/api/v1/checkpoints/{checkpoint}/metadata", body)
    report_again(user, experiment_id, checkpoint)
    assert checkpoint_of(user, checkpoint)["metadata"]["by"] == "ada"


@pytest.mark.parametrize("left", [{}, {"state": "1"}])
def test_repeated_checkpoint_report_does_not_restore_files(
    user: Caller, experiment_id: int, left: dict[str, str]
) -> None:
    checkpoint = report_checkpoint(user, experiment_id, state="1", more="2")
    patch = {"checkpoints": [{"uuid": checkpoint, "resources": {"resources": left}}]}
    user.done("PATCH", "/api/v1/checkpoints", patch)
    before = checkpoint_of(user, checkpoint)
    report_again(user, experiment_id, checkpoint)
    assert checkpoint_of(user, checkpoint) == before


def test_an_early_exit_counts_once(user: Caller) -> None:
    rate = {"type": "double", "minval": 0, "maxval": 1}
    experiment_id = create(user, hyperparameters={"lr": rate})
    trial_id = trial_of(user, experiment_id)["id"]
    exit = {"reason": "EXITED_REASON_INVALID_HP"}
    user.post(f"/api/v1/trials/{trial_id}/early_exit", exit)
    trials = f"/api/v1/experiments/{experiment_id}/trials"
    before = user.get(trials)["trials"]
    user.post(f"/api/v1/trials/{trial_id}/early_exit", exit)
    assert user.get(trials)["trials"] == before
    assert len(before) == 2


def test_an_operation_is_completed_once(user: Caller) -> None:
    experiment_id = searched(user)
    operate(user, experiment_id, create_trial(ONE), train(ONE, 8), after=1)
    trial_id = trial_of(user, experiment_id)["id"]
    complete(user, trial_id, 8, 0.75)
    event_kinds = kinds(user, experiment_id)
    complete(user, trial_id, 8, 0.75)
    assert kinds(user, experiment_id) == event_kinds
    operate(user, experiment_id, train(ONE, 16))
    complete(user, trial_id, 8, 0.75)
    assert kinds(user, experiment_id) == event_kinds
    assert operation_of(user, trial_id) == ("16", False)


@pytest.mark.parametrize("path", ["/api/v1/task/logs", "/task-logs"])
def test_log_lines_with_an_idempotency_key_are_stored_once(
    user: Caller, experiment_id: int, path: str
) -> None:
    task_id = trial_of(user, experiment_id)["taskId"]
    lines = [{"taskId": task_id, "log": "hello"}]
    body: Any = lines if path == "/task-logs" else {"logs": lines}
    repeat(user, path, body, key=str(uuid.uuid4()))
    repeat(user, path, body, key="another word")
    messages = user.lines(f"/api/v1/tasks/{task_id}/logs")
    assert [line["log"] for line in messages] == ["hello"] * 2
