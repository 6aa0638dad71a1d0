"""Only a managed trial's tasks, its owner and administrators can report for it."""

from typing import Any

import pytest

from tests.support.api import Api, Caller, config_of, create, report_metrics, trial_of
from tests.support.house import House
from tests.support.played_agent import task_of
from tests.support.reporting_agent import ReportingAgent, body_of, report, steps_of

VALUES = {"stepsCompleted": 1, "trialRunId": 0, "metrics": {"avgMetrics": {"loss": 0.5}}}
REPORTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("POST", "metrics", {"group": "training", "metrics": VALUES}),
    ("POST", "metrics", {"group": "validation", "metrics": VALUES}),
    ("POST", "training_metrics", VALUES),
    ("POST", "validation_metrics", VALUES),
    ("POST", "progress", {"progress": 0.5}),
    ("POST", "runner/metadata", {"state": "training"}),
    ("GET", "searcher/operation", {}),
    ("POST", "searcher/completed_operation", {"completedOperation": {"op": {"length": "1"}}}),
    ("POST", "early_exit", {"reason": "EXITED_REASON_INVALID_HP"}),
)


def series_of(trial_id: int) -> dict[str, Any]:
    """Return a profiler report of an older harness."""
    labels = {"trialId": trial_id, "name": "cpu_util", "agentId": "a1"}
    point = {"values": [1.0], "batches": [1], "timestamps": ["2026-01-01T00:00:00Z"]}
    return {"batches": [{"labels": labels, **point}]}


def line_of(task_id: str) -> dict[str, Any]:
    return {"taskId": task_id, "log": "a line"}


@pytest.mark.parametrize(("method", "route", "body"), REPORTS)
def test_only_owner_and_administrators_report_for_a_trial(
    admin: Caller, user: Caller, method: str, route: str, body: dict[str, Any]
) -> None:
    other_trial, own = (int(trial_of(caller, create(caller))["id"]) for caller in (admin, user))
    answer = user.ask(method, f"/api/v1/trials/{other_trial}/{route}", body or None)
    assert answer.status == 403
    assert answer.error == (
        f"trial {other_trial} of another user takes reports from its own tasks, its owner and administrators only;"
        " you are signed in as determined"
    )
    for caller, trial in ((user, own), (admin, own), (admin, other_trial)):
        assert caller.ask(method, f"/api/v1/trials/{trial}/{route}", body or None).status == 200


def test_forged_run_does_not_change_a_trial_of_another_user(admin: Caller, user: Caller) -> None:
    trial = int(trial_of(admin, create(admin))["id"])
    for steps, loss in ((10, 0.5), (20, 0.4)):
        assert report_metrics(admin, trial, "validation", steps, {"loss": loss}).status == 200
    before = admin.get(f"/api/v1/trials/{trial}")
    assert report_metrics(user, trial, "validation", 1, {"loss": -9.0}, run=999).status == 403
    assert admin.get(f"/api/v1/trials/{trial}") == before


def test_only_the_owner_reports_profiler_series(admin: Caller, user: Caller) -> None:
    other_trial, own = (int(trial_of(caller, create(caller))["id"]) for caller in (admin, user))
    path = "/api/v1/trials/profiler/metrics"
    assert user.ask("POST", path, series_of(other_trial)).status == 403
    mixed = {"batches": series_of(own)["batches"] + series_of(other_trial)["batches"]}
    assert user.ask("POST", path, mixed).status == 403
    assert user.ask("POST", path, series_of(own)).status == 200
    assert admin.ask("POST", path, series_of(own)).status == 200


def test_only_the_owner_reports_the_source_of_a_trial(admin: Caller, user: Caller) -> None:
    trial_id = int(trial_of(admin, create(admin))["id"])
    source = {"trialId": trial_id, "checkpointUuid": "00000000-0000-4000-8000-000000000000"}
    body = {"trialSourceInfo": {**source, "trialSourceInfoType": "INFERENCE"}}
    assert user.ask("POST", "/api/v1/trial-source-info", body).status == 403
    assert admin.ask("POST", "/api/v1/trial-source-info", body).status == 404, "no such checkpoint"


def test_only_the_owner_sends_log_lines(admin: Caller, user: Caller) -> None:
    other_task, own = (str(trial_of(caller, create(caller))["taskId"]) for caller in (admin, user))
    answer = user.ask("POST", "/api/v1/task/logs", {"logs": [line_of(own), line_of(other_task)]})
    assert (answer.status, f"task {other_task}" in answer.error) == (403, True)
    assert user.ask("POST", "/task-logs", [line_of(other_task)]).status == 403
    assert b"a line" not in admin.ask("GET", f"/api/v1/tasks/{own}/logs").body
    for caller, task in ((user, own), (admin, own), (admin, other_task)):
        caller.post("/api/v1/task/logs", {"logs": [line_of(task)]})


@pytest.mark.parametrize("task_id", ["none", "1.00000000-0000-4000-8000-000000000000", "trial-9"])
def test_log_lines_of_a_missing_task_are_not_found(
    admin: Caller, user: Caller, task_id: str
) -> None:
    own = str(trial_of(user, create(user))["taskId"])
    lines = [line_of(own), line_of(task_id)]
    for caller in (admin, user):
        for path, body in (("/api/v1/task/logs", {"logs": lines}), ("/task-logs", lines)):
            answer = caller.ask("POST", path, body)
            assert (answer.status, answer.error) == (404, f"task '{task_id}' not found")
    assert b"a line" not in user.ask("GET", f"/api/v1/tasks/{own}/logs").body
    assert user.ask("POST", "/task-logs", [{"log": "of no task"}]).status == 400


def test_editor_cannot_report_for_others(house: House) -> None:
    editor = house.person("editor", "Editor", house.red)
    chief = house.person("chief", "WorkspaceAdmin", house.red)
    trial = trial_of(house.admin, house.experiment(house.admin, house.red_project))
    results = [
        report_metrics(caller, trial["id"], "training", 1, {"loss": 1})
        for caller in (editor, chief)
    ]
    assert [result.status for result in results] == [403, 200]
    lines = {"logs": [line_of(trial["taskId"])]}
    statuses = [
        other_caller.ask("POST", "/api/v1/task/logs", lines).status
        for other_caller in (editor, chief)
    ]
    assert statuses == [403, 200]


def test_users_share_unmanaged_trials(admin: Caller, user: Caller) -> None:
    """Several users may report for an experiment that they find by its external id."""
    request = {"config": config_of(), "unmanaged": True}
    experiment = admin.post("/api/v1/experiments", request)["experiment"]["id"]
    new = {"experimentId": experiment, "hparams": {}, "unmanaged": True}
    trial = user.post("/api/v1/trials", new)["trial"]
    assert report_metrics(user, trial["id"], "training", 1, {"loss": 1}).status == 200
    user.post("/api/v1/task/logs", {"logs": [line_of(trial["taskId"])]})


def test_rejects_report_for_a_future_run(api: Api, user: Caller) -> None:
    task, experiment = task_of(api, user)
    trial = int(trial_of(user, experiment)["id"])
    for caller in (task, user):
        for group in ("training", "validation"):
            answer = report_metrics(caller, trial, group, 1, {"loss": 1}, run=2)
            assert answer.status == 400
            assert f"trial {trial} has no run 2: its current run is 1" in answer.error
    for group in ("training", "validation"):
        assert report_metrics(task, trial, group, 1, {"loss": 1}, run=1).status == 200


@pytest.mark.parametrize("run", [-1, 2**31, 2**63 - 1])
def test_rejects_unknown_run_number(user: Caller, run: int) -> None:
    trial = int(trial_of(user, create(user))["id"])
    for group in ("training", "validation"):
        assert report_metrics(user, trial, group, 1, {"loss": 1}, run=run).status == 400


@pytest.mark.parametrize("steps", [-1, 2**31, 2**53 + 1, 2**63 - 1])
def test_rejects_steps_outside_of_the_range(user: Caller, steps: int) -> None:
    trial = trial_of(user, create(user))
    sentence = f"steps are a number from 0 to {2**31 - 1}, not {steps}"
    for group in ("training", "validation", "mine"):
        answer = report_metrics(user, trial["id"], group, steps, {"loss": 1})
        assert (answer.status, sentence in answer.error) == (400, True)
    checkpoint = {
        "uuid": "00000000-0000-4000-8000-000000000000", "taskId": trial["taskId"],
        "metadata": {"steps_completed": steps}, "state": "STATE_COMPLETED",
    }  # fmt: skip
    answer = user.ask("POST", "/api/v1/checkpoints", checkpoint)
    assert (answer.status, sentence in answer.error) == (400, True)
    path = f"/api/v1/trials/{trial['id']}/workload"
    answer = user.ask("GET", path, query={"stepsCompleted": [str(steps)]})
    assert (answer.status, sentence in answer.error) == (400, True)


@pytest.mark.parametrize(("steps", "run"), [(-1, 1), (2**31, 1), (2**63 - 1, 1), (3, 2), (3, -1)])
def test_agent_receives_the_error_of_a_report(api: Api, user: Caller, steps: int, run: int) -> None:
    agent = ReportingAgent(api, user)
    (trial, token), other = agent.tasks
    body = body_of(steps, run=run)
    delivered = agent.outcomes(report((trial, token), body), report(other, body_of(3)))
    assert delivered == ["alone", "stored"]
    answer = Caller(user.app, token).ask("POST", f"/api/v1/trials/{trial}/metrics", body.encode())
    assert answer.status == 400
    assert steps_of(user, trial) == 0
