"""The token of a task works for its owner's work, but not for other tasks' reports or other users' objects."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from det_controlplane.api import routes
from det_controlplane.api.router import Access, Route

from tests.support.api import (
    Api,
    ApiResponse,
    Caller,
    config_of,
    create,
    create_ended,
    report_checkpoint,
    report_metrics,
    trial_of,
)
from tests.support.inbox import Inbox, make_webhook
from tests.support.played_agent import PlayedAgent, task_of

CHANGING = [
    r for r in routes.every() if r.method != "GET" and r.access in (Access.USER, Access.ADMIN)
]


def reports(task: Caller, caller: Caller, experiment: int) -> list[ApiResponse]:
    """Return every report of a trial, as requests."""
    trial = trial_of(caller, experiment)
    path = f"/api/v1/trials/{trial['id']}"
    checkpoint = {
        "uuid": "8a9e9d56-9d8c-4d2e-b0b1-a3f6a0a8a001", "taskId": trial["taskId"], "resources": {"state": "1"},
        "metadata": {"steps_completed": 2}, "state": "STATE_COMPLETED",
    }  # fmt: skip
    sample = {
        "labels": {"trialId": trial["id"], "name": "gpu_util"}, "values": [1], "batches": [1],
        "timestamps": ["2026-11-23T10:00:00Z"],
    }  # fmt: skip
    return [
        report_metrics(task, trial["id"], "validation", 1, {"loss": 0.0}, run=1),
        task.ask("POST", "/api/v1/trials/profiler/metrics", {"batches": [sample]}),
        task.ask("POST", f"{path}/progress", {"progress": 0.5}),
        task.ask("POST", f"{path}/runner/metadata", {"state": "training"}),
        task.ask("POST", f"/api/v1/runs/{trial['id']}/metadata", {"metadata": {"a": 1}}),
        task.ask("POST", "/api/v1/checkpoints", checkpoint),
        task.ask("POST", "/api/v1/task/logs", {"logs": [{"taskId": trial["taskId"], "log": "x"}]}),
        task.ask("POST", f"{path}/early_exit", {"reason": "EXITED_REASON_INVALID_HP"}),
    ]


def test_task_token_expires_a_minute_after_its_task(api: Api, user: Caller) -> None:
    """Reports are taken while their container ends, for a minute."""
    agent = PlayedAgent(api, "agent-1")
    agent.join()
    create(user, activate=True)
    api.tick()
    (order,) = agent.poll()
    task = api.with_token(order["spec"]["session_token"])
    agent.poll("terminated", exit_code=0)
    start = api.ctx.now()
    for after_s, status in ((50, 200), (61, 401)):
        later = start + timedelta(seconds=after_s)
        api.ctx.now = lambda now=later: now  # type: ignore[misc]
        assert task.ask("GET", "/api/v1/me").status == status, after_s


def test_task_can_report_for_its_own_trial(api: Api, user: Caller) -> None:
    task, experiment = task_of(api, user)
    assert [response.status for response in reports(task, user, experiment)] == [200] * 8


def test_task_cannot_report_for_other_trials_of_its_owner(api: Api, user: Caller) -> None:
    task, _ = task_of(api, user)
    other = create(user)
    assert [response.status for response in reports(task, user, other)] == [403] * 8


def test_task_can_report_for_unmanaged_trials_it_creates(api: Api, user: Caller) -> None:
    task, _ = task_of(api, user)
    response = task.post("/api/v1/experiments", {"config": config_of(), "unmanaged": True})
    experiment = response["experiment"]["id"]
    trial = task.post("/api/v1/trials", {"experimentId": experiment, "hparams": {}})["trial"]["id"]
    assert report_metrics(task, trial, "validation", 1, {"loss": 0.0}).status == 200


def test_task_code_acts_as_its_owner(api: Api, user: Caller) -> None:
    task, _ = task_of(api, user)
    other = create(task)
    task.post("/api/v1/models", {"name": "mine"})
    task.post(f"/api/v1/experiments/{other}/kill")
    task.done("DELETE", f"/api/v1/experiments/{other}")


def test_task_of_an_administrator_has_no_administrator_rights(
    api: Api, admin: Caller, user: Caller
) -> None:
    task, _ = task_of(api, admin)
    victim = create_ended(user)
    running = create(user)
    checkpoint = report_checkpoint(user, victim)
    responses = [
        task.ask("DELETE", f"/api/v1/experiments/{victim}"),
        task.ask("POST", f"/api/v1/experiments/{running}/kill"),
        task.ask("POST", f"/api/v1/trials/{trial_of(user, running)['id']}/kill"),
        task.ask("DELETE", "/api/v1/checkpoints", {"checkpointUuids": [checkpoint]}),
        task.ask("POST", f"/api/v1/checkpoints/{checkpoint}/metadata", {"checkpoint": {}}),
        task.ask("POST", "/api/v1/projects/0/experiments/kill", {"experimentIds": [running]}),
        task.ask("GET", "/api/v1/master/config"),
        task.ask("POST", "/api/v1/users", {"user": {"username": "eve"}}),
        task.ask("POST", "/api/v1/users/1/password", b'"x"'),
        task.ask("POST", "/api/v1/tokens", {"userId": 1}),
    ]
    assert [response.status for response in responses] == [403] * len(responses)


def test_task_of_an_administrator_cannot_change_experiments_of_others(
    api: Api, admin: Caller, user: Caller
) -> None:
    task, _ = task_of(api, admin)
    experiment = create(user)
    trial = trial_of(user, experiment)["id"]
    ids = {
        "experiments/{id}": f"experiments/{experiment}", "trials/{id}": f"trials/{trial}", "{label}": "x",
        "{experimentId}": experiment, "{trialId}": trial, "{runId}": trial,
        "{checkpointUuid}": report_checkpoint(user, experiment),
    }  # fmt: skip
    problems, request_count = {}, 0
    for route in CHANGING:
        path = route.path
        for name, value in ids.items():
            path = path.replace(name, str(value))
        if path == route.path or "{" in path:
            continue
        request_count += 1
        response = task.ask(route.method, path, {})
        if response.status != 403:
            problems[f"{route.method} {route.path}"] = (response.status, response.body[:100])
    assert problems == {}
    assert request_count > 25


def test_narrow_token_is_valid_only_for_its_task(api: Api, user: Caller) -> None:
    task, experiment = task_of(api, user, environment={"det_token": "task"})
    other = create(user)
    foreign = f"/api/v1/checkpoints/{report_checkpoint(user, other)}"
    own = f"/api/v1/checkpoints/{report_checkpoint(user, experiment)}"
    assert [response.status for response in reports(task, user, experiment)] == [200] * 8
    assert [task.ask("GET", own).status, task.ask("GET", f"{own}/metrics").status] == [200, 200]
    responses = [
        task.ask("GET", foreign),
        task.ask("GET", f"{foreign}/metrics"),
        task.ask("POST", f"{foreign}/metadata", {"checkpoint": {"metadata": {}}}),
        task.ask("POST", "/api/v1/checkpoints/rm", {"checkpointUuids": [foreign[-36:]]}),
        task.ask("GET", "/api/v1/experiments"),
        task.ask("GET", f"/api/v1/experiments/{other}"),
        task.ask("POST", "/api/v1/experiments", {"config": config_of()}),
        task.ask("POST", "/api/v1/models", {"name": "mine"}),
        task.ask("GET", "/api/v1/users"),
    ]
    assert [response.status for response in responses] == [403] * len(responses)
    assert task.get(f"/api/v1/experiments/{experiment}")["experiment"]["id"] == experiment


def test_users_can_delete_only_their_own_checkpoints(api: Api, admin: Caller, user: Caller) -> None:
    checkpoint = report_checkpoint(admin, create_ended(admin))
    for method, path in (("DELETE", "/api/v1/checkpoints"), ("POST", "/api/v1/checkpoints/rm")):
        assert user.ask(method, path, {"checkpointUuids": [checkpoint]}).status == 403
        assert admin.ask(method, path, {"checkpointUuids": [checkpoint]}).status == 200


def test_users_cannot_run_changed_code_in_experiments_of_others(
    admin: Caller, user: Caller
) -> None:
    path, change = "/api/v1/experiments/continue", {"overrideConfig": "entrypoint: python3 evil.py"}
    other = create_ended(admin)
    response = user.ask("POST", path, {"id": other, **change})
    assert (response.status, f"experiment {other} with changes" in response.error) == (403, True)
    user.post(path, {"id": other, "overrideConfig": "{}"})
    for owner in (user, admin):
        own = create_ended(user)
        assert owner.ask("POST", path, {"id": own, **change}).status == 200


def test_only_administrators_disable_agents_and_slots(
    api: Api, admin: Caller, user: Caller
) -> None:
    PlayedAgent(api, "agent-1").join()
    for path in ("disable", "enable", "slots/0/disable", "slots/0/enable"):
        assert user.ask("POST", f"/api/v1/agents/agent-1/{path}", {}).status == 403
        assert admin.ask("POST", f"/api/v1/agents/agent-1/{path}", {}).status == 200


_MANY = re.compile(r"/api/v1/(runs/(?!start)|projects/\{projectId\}/experiments/)\w+")
BULK = [r for r in routes.every() if _MANY.fullmatch(r.path)]
DOOMED = {"kind": "field", "columnName": "experimentName", "operator": "=", "value": "none"}


@pytest.mark.parametrize("route", BULK, ids=lambda r: r.path)
def test_bulk_actions_require_a_project_or_ids(shared_api: Api, route: Route) -> None:
    """Or a filter over projects that are all asked for by -1."""
    user, more = shared_api.signed_in("determined"), {"destinationProjectId": 1, "numDays": 3}
    of_runs = "runs" in route.path

    def status_of(project: str, selection: dict[str, Any], *conditions: Any) -> int:
        group = {"kind": "group", "conjunction": "and", "children": list(conditions)}
        fields = {"projectId": int(project), "sourceProjectId": int(project)}
        body = (
            {"filter": json.dumps({"filterGroup": group}), **fields}
            if of_runs
            else {"filters": selection}
        )
        path = route.path.replace("{projectId}", project)
        return user.ask(route.method, path, {**more, **body}).status

    statuses = [
        status_of("0", {}), status_of("-1", {}), status_of("0", {"name": "none"}, DOOMED),
        status_of("00", {"name": "none"}, DOOMED),
        status_of("-1", {"archived": True}, {"kind": "group", "conjunction": "or", "children": []}),
    ]  # fmt: skip
    assert statuses == [400] * 5
    assert status_of("-1", {"name": "none"}, DOOMED) == 200
    assert status_of("1", {"name": "none"}, DOOMED) == 200


def test_ids_select_experiments_of_any_project(user: Caller) -> None:
    running = create(user)
    outcome = user.post("/api/v1/projects/0/experiments/kill", {"experimentIds": [running]})
    assert outcome["results"] == [{"id": running, "error": ""}]
    other = create(user)
    run = trial_of(user, other)["id"]
    assert user.post("/api/v1/runs/kill", {"runIds": [run]})["results"] == [
        {"id": run, "error": ""}
    ]


def test_users_can_control_all_experiments_but_delete_only_their_own(
    admin: Caller, user: Caller
) -> None:
    other, ended_experiment = create(admin), create_ended(admin)
    path = f"/api/v1/experiments/{other}"
    user.done("PATCH", path, {"description": "of all"})
    for deed in ("activate", "pause", "kill"):
        user.post(f"{path}/{deed}")
    user.post("/api/v1/experiments/continue", {"id": ended_experiment, "overrideConfig": "{}"})
    response = user.ask("DELETE", path)
    assert (response.status, "of another user" in response.error) == (403, True)
    admin.done("DELETE", path)
    user.done("DELETE", f"/api/v1/experiments/{create_ended(user)}")


def test_users_can_change_templates_and_webhooks_of_others(
    api: Api, admin: Caller, user: Caller
) -> None:
    api.ctx.courier = Inbox()
    admin.post("/api/v1/templates/t", {"config": {}})
    hook = f"/api/v1/webhooks/{make_webhook(admin)['id']}"
    user.done("PATCH", "/api/v1/templates/t", {"max_restarts": 1})
    user.done("PATCH", hook, {"name": "renamed"})
    for path in ("/api/v1/templates/t", hook):
        user.done("DELETE", path)
        assert admin.ask("GET", path).status == 404
