"""Continuing, forking and deleting experiments; templates and policies that shape them."""

import base64
import io
import tarfile
from dataclasses import replace

import pytest
from det_controlplane.api.http import Request, Response, Wait

from tests.support.api import (
    Api,
    Caller,
    config_of,
    create,
    create_ended,
    report_checkpoint,
    report_metrics,
    trial_of,
)
from tests.support.played_agent import PlayedAgent

FILES = [
    {"path": "src", "type": 53, "content": "", "mtime": "1", "mode": 493, "uid": 0, "gid": 0},
    {
        "path": "src/train.py", "type": 48, "content": base64.b64encode(b"print(1)").decode(),
        "mtime": "1", "mode": 420, "uid": 0, "gid": 0,
    },
]  # fmt: skip
RANDOM = {"name": "random", "metric": "loss", "max_trials": 2, "max_concurrent_trials": 2}


def test_canceled_experiment_continues_from_its_checkpoint(user: Caller) -> None:
    experiment_id = create_ended(user)
    before = trial_of(user, experiment_id)
    uuid = report_checkpoint(user, experiment_id, steps=3)
    experiment = user.post("/api/v1/experiments/continue", {"id": experiment_id})["experiment"]
    assert (experiment["state"], experiment["endTime"], experiment["progress"]) == (
        "STATE_QUEUED",
        None,
        0,
    )
    after = trial_of(user, experiment_id)
    assert after["id"] == before["id"]
    assert after["taskIds"] == [before["taskId"], f"{before['taskId']}-1"]
    assert after["restarts"] == 0
    assert after["state"] == "STATE_QUEUED"
    checkpoints = user.get(f"/api/v1/trials/{after['id']}/checkpoints")["checkpoints"]
    assert [c["uuid"] for c in checkpoints] == [uuid]


def test_each_continuation_has_its_own_task(user: Caller) -> None:
    experiment_id = create_ended(user)
    for n in (1, 2):
        user.post("/api/v1/experiments/continue", {"id": experiment_id, "overrideConfig": "{}"})
        assert trial_of(user, experiment_id)["taskId"].endswith(f"-{n}")
        user.post(f"/api/v1/experiments/{experiment_id}/kill")


def test_single_trial_can_continue_with_another_configuration(user: Caller) -> None:
    experiment_id = create_ended(user)
    override = "hyperparameters: {lr: 0.5}\nsearcher: {max_length: {batches: 9}}"
    user.post("/api/v1/experiments/continue", {"id": experiment_id, "overrideConfig": override})
    config = user.get(f"/api/v1/experiments/{experiment_id}")["config"]
    assert config["searcher"]["max_length"] == {"batches": 9}
    assert len(config["log_policies"]) == 2
    assert trial_of(user, experiment_id)["hparams"] == {"lr": 0.5}


def test_continued_experiment_uses_the_pool_and_priority_of_its_changes(user: Caller) -> None:
    experiment_id = create_ended(user)
    override = "resources: {resource_pool: reserved, priority: 7, weight: 2}"
    user.post("/api/v1/experiments/continue", {"id": experiment_id, "overrideConfig": override})
    assert (
        user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]["resourcePool"] == "reserved"
    )
    (job,) = user.get("/api/v1/job-queues", resourcePool="reserved")["jobs"]
    assert (job["priority"], job["weight"]) == (7, 2)


def test_continued_experiment_does_not_name_an_unknown_pool(user: Caller) -> None:
    body = {"id": create_ended(user), "overrideConfig": "resources: {resource_pool: nope}"}
    response = user.ask("POST", "/api/v1/experiments/continue", body)
    assert (response.status, "'nope' does not exist" in response.error) == (400, True)


def test_rejects_changed_configuration_for_searched_trials(user: Caller) -> None:
    experiment_id = create_ended(user, searcher=RANDOM)
    body = {"id": experiment_id, "overrideConfig": "max_restarts: 3"}
    response = user.ask("POST", "/api/v1/experiments/continue", body)
    assert response.status == 400
    assert "single" in response.error
    user.post("/api/v1/experiments/continue", {"id": experiment_id})
    states = [t["state"] for t in user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]]
    assert states == ["STATE_QUEUED", "STATE_QUEUED"]


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("project: other", "project"),
        ("searcher: {name: random, max_trials: 2, metric: loss}", "searcher.name"),
        ("max_restarts: -1", "max_restarts"),
        ("[", "YAML"),
    ],
)
def test_rejects_changes_that_continuing_cannot_make(
    user: Caller, override: str, sentence: str
) -> None:
    body = {"id": create_ended(user), "overrideConfig": override}
    response = user.ask("POST", "/api/v1/experiments/continue", body)
    assert response.status == 400
    assert sentence in response.error


def test_validating_a_continuation_changes_no_data(user: Caller, admin: Caller) -> None:
    experiment_id = create_ended(user)
    before = user.get(f"/api/v1/experiments/{experiment_id}")
    body = {"id": experiment_id, "overrideConfig": "max_restarts: 3", "validateOnly": True}
    user.post("/api/v1/experiments/continue", body)
    response = user.ask(
        "POST", "/api/v1/experiments/continue", {**body, "overrideConfig": "max_restarts: x"}
    )
    assert (response.status, "max_restarts" in response.error) == (400, True)
    assert user.get(f"/api/v1/experiments/{experiment_id}") == before

    def recorded() -> int:
        return sum("continue" in r["action"] for r in admin.get("/api/v1/audit")["entries"])

    assert recorded() == 0
    user.post("/api/v1/experiments/continue", {**body, "validateOnly": False})
    assert recorded() == 1


def test_only_ended_experiments_of_simple_searches_are_continued(user: Caller) -> None:
    running = {"id": create(user)}
    assert "PAUSED" in user.ask("POST", "/api/v1/experiments/continue", running).error
    asha = {"name": "async_halving", "metric": "loss", "time_metric": "batches", "max_time": 16,
            "num_rungs": 2, "max_trials": 4}  # fmt: skip
    body = {"id": create_ended(user, searcher=asha)}
    assert "async_halving" in user.ask("POST", "/api/v1/experiments/continue", body).error
    assert user.ask("POST", "/api/v1/experiments/continue", {"id": 999}).status == 404


def test_a_fork_has_the_files_of_its_parent(user: Caller) -> None:
    request = {"config": config_of(), "modelDefinition": FILES}
    parent = user.post("/api/v1/experiments", request)["experiment"]["id"]
    fork = {"config": config_of(name="fork"), "parentId": parent}
    child = user.post("/api/v1/experiments", fork)["experiment"]
    assert child["forkedFrom"] == parent
    answers = [user.get(f"/api/v1/experiments/{i}/model_def") for i in (parent, child["id"])]
    assert answers[0] == answers[1]


def test_files_of_a_model_definition_are_listed(user: Caller) -> None:
    request = {"config": config_of(), "modelDefinition": FILES}
    experiment_id = user.post("/api/v1/experiments", request)["experiment"]["id"]
    (folder,) = user.get(f"/api/v1/experiments/{experiment_id}/file_tree")["files"]
    assert (folder["path"], folder["isDir"]) == ("src", True)
    assert [(f["name"], f["contentLength"]) for f in folder["files"]] == [("train.py", 8)]
    file = user.post(f"/api/v1/experiments/{experiment_id}/file", {"path": "src/train.py"})["file"]
    assert base64.b64decode(file) == b"print(1)"
    raw = user.ask("GET", f"/experiments/{experiment_id}/model_def")
    with tarfile.open(fileobj=io.BytesIO(raw.body)) as tar:
        assert "src/train.py" in tar.getnames()
    path = f"/api/v1/experiments/{experiment_id}/file"
    assert user.ask("POST", path, {"path": "../secret"}).status == 404


def test_preview_lists_checkpoints_that_a_policy_would_delete(user: Caller) -> None:
    experiment_id = create_ended(user)
    checkpoints = [report_checkpoint(user, experiment_id, steps=n) for n in (2, 4)]
    query = {"save_experiment_best": ["0"], "save_trial_best": ["0"], "save_trial_latest": ["1"]}
    response = user.done("GET", f"/experiments/{experiment_id}/preview_gc", query=query)
    assert [(c["UUID"], c["StepsCompleted"]) for c in response["checkpoints"]] == [
        (checkpoints[0], 2)
    ]
    assert response["metric_name"] == "loss"


def test_only_own_ended_experiments_can_be_deleted(admin: Caller, user: Caller) -> None:
    assert "kill it" in user.ask("DELETE", f"/api/v1/experiments/{create(user)}").error
    experiment_id = create_ended(admin)
    assert user.ask("DELETE", f"/api/v1/experiments/{experiment_id}").status == 403


def test_deleting_twice_starts_one_deletion(api: Api, user: Caller) -> None:
    experiment_id = create_ended(user)
    for _ in range(2):
        user.done("DELETE", f"/api/v1/experiments/{experiment_id}")
    api.tick()
    tasks = user.get("/api/v1/tasks")["allocationIdToSummary"]
    assert len([t for t in tasks.values() if "GC" in t["name"]]) == 1


def test_tensorboard_files_are_deleted_without_the_checkpoints(user: Caller) -> None:
    running = create(user)
    path = "/api/v1/experiments/{}/tensorboard-files"
    assert "still writes" in user.ask("DELETE", path.format(running)).error
    experiment_id = create_ended(user)
    uuid = report_checkpoint(user, experiment_id)
    user.done("DELETE", path.format(experiment_id))
    (task,) = user.get("/api/v1/tasks")["allocationIdToSummary"].values()
    assert "GC" in task["name"]
    assert user.get(f"/api/v1/checkpoints/{uuid}")["checkpoint"]["state"] == "STATE_COMPLETED"


@pytest.mark.parametrize("exit_code", [0, 1])
def test_tensorboard_deletion_responds_after_its_task_ended(
    api: Api, agent: PlayedAgent, user: Caller, exit_code: int
) -> None:
    path = f"/api/v1/experiments/{create_ended(user)}/tensorboard-files"
    headers = {"authorization": f"Bearer {user.token}"}
    request = Request("DELETE", path, headers=headers, final=False)
    answer = api.app.handle(replace(request))
    assert isinstance(answer, Wait)
    (task,) = user.get("/api/v1/tasks")["allocationIdToSummary"].values()
    assert answer.topic == f"logs:{task['taskId']}"
    api.tick()
    agent.poll()
    assert isinstance(api.app.handle(replace(request)), Wait)
    failure = "container_failed" if exit_code else None
    agent.poll("terminated", exit_code=exit_code, failure=failure)
    answer = api.app.handle(replace(request))
    assert isinstance(answer, Response)
    if exit_code:
        assert answer.status == 400
        assert f"det task logs {task['taskId']}".encode() in answer.body
    else:
        assert (answer.status, answer.body) == (200, b"{}")
    assert user.get("/api/v1/tasks")["allocationIdToSummary"] == {}, "a second task deletes again"


def test_submitted_configuration_overrides_the_template(user: Caller) -> None:
    fragment = {"description": "of the template", "max_restarts": 9}
    user.post("/api/v1/templates/ours", {"config": fragment})
    request = {"config": config_of(), "template": "ours"}
    config = user.post("/api/v1/experiments", request)["config"]
    assert (config["description"], config["max_restarts"]) == ("of the template", 0)


def test_template_can_be_renamed_replaced_and_deleted(user: Caller) -> None:
    path = "/api/v1/templates/ours"
    user.post(path, {"config": {"max_restarts": 1}})
    assert user.ask("POST", path, {"config": {}}).status == 409
    user.done("PUT", path, {"config": {"max_restarts": 2}})
    assert user.done("PATCH", path, {"max_restarts": 3})["template"]["config"] == {
        "max_restarts": 3
    }
    user.done("PATCH", "/api/v1/template/rename", {"oldName": "ours", "newName": "theirs"})
    assert user.ask("GET", path).status == 404
    user.done("DELETE", "/api/v1/templates/theirs")
    assert user.get("/api/v1/templates")["templates"] == []


def test_rejects_template_that_is_not_an_object(user: Caller) -> None:
    response = user.ask("POST", "/api/v1/templates/ours", {"config": ["max_restarts"]})
    assert response.status == 400
    assert "object" in response.error


def test_constraints_reject_too_many_slots_and_too_urgent_priorities(
    admin: Caller, user: Caller
) -> None:
    policy = "constraints: {resources: {max_slots: 2}, priority_limit: 30}"
    path = "/api/v1/config-policies/global/experiment"
    assert user.ask("PUT", path, {"configPolicies": policy}).status == 403
    admin.done("PUT", path, {"configPolicies": policy})
    for resources, name in (
        ({"slots_per_trial": 4}, "slots_per_trial"),
        ({"priority": 5}, "priority"),
    ):
        response = user.ask(
            "POST", "/api/v1/experiments", {"config": config_of(resources=resources)}
        )
        assert response.status == 400
        assert f"resources.{name}" in response.error
    experiment_id = create(user)
    edit = {"resources": {"priority": 5}}
    assert user.ask("PATCH", f"/api/v1/experiments/{experiment_id}", edit).status == 400
    admin.done("DELETE", path)
    user.done("PATCH", f"/api/v1/experiments/{experiment_id}", edit)


def test_invariant_configuration_overrides_user_and_workspace(admin: Caller) -> None:
    own = "/api/v1/config-policies/workspaces/1/experiment"
    admin.done("PUT", own, {"configPolicies": "invariant_config: {max_restarts: 1, debug: true}"})
    everywhere = own.replace("workspaces/1", "global")
    admin.done("PUT", everywhere, {"configPolicies": "invariant_config: {max_restarts: 2}"})
    config = admin.post("/api/v1/experiments", {"config": config_of()})["config"]
    assert (config["max_restarts"], config["debug"]) == (2, True)


def test_invariant_configuration_overrides_changes_by_continuing(
    admin: Caller, user: Caller
) -> None:
    """Else a workspace that asks for narrow tokens would be left by `det experiment continue --config`."""
    experiment = create_ended(user)
    own = "/api/v1/config-policies/workspaces/1/experiment"
    invariant = "invariant_config: {max_restarts: 1, environment: {det_token: task}}"
    admin.done("PUT", own, {"configPolicies": invariant})
    override = "{max_restarts: 5, environment: {det_token: owner}, description: again}"
    body = {"id": experiment, "overrideConfig": override}
    config = user.post("/api/v1/experiments/continue", body)["experiment"]["config"]
    assert (config["max_restarts"], config["environment"]["det_token"]) == (1, "task")
    assert config["description"] == "again"


def test_rejects_continuing_against_an_invariant_searcher(admin: Caller, user: Caller) -> None:
    experiment = create_ended(user)
    own = "/api/v1/config-policies/workspaces/1/experiment"
    invariant = "invariant_config: {searcher: {name: random, max_trials: 2}}"
    admin.done("PUT", own, {"configPolicies": invariant})
    body = {"id": experiment, "overrideConfig": "description: again"}
    response = user.ask("POST", "/api/v1/experiments/continue", body)
    assert (response.status, "searcher.name" in response.error) == (400, True)


def test_error_names_the_wrong_field_of_a_policy(admin: Caller) -> None:
    path = "/api/v1/config-policies/global/tasks"
    response = admin.ask("PUT", path, {"configPolicies": "constraints: {slots: 3}"})
    assert response.status == 400
    assert "slots" in response.error
    assert admin.ask("GET", path.replace("tasks", "dreams")).status == 400


def test_log_retention_is_set_for_experiments_and_trials(user: Caller) -> None:
    experiment_id = create_ended(user)
    trial_id = trial_of(user, experiment_id)["id"]
    user.done("PUT", f"/api/v1/experiments/{experiment_id}/retain_logs", {"numDays": 30})
    message = f"/api/v1/trials/{trial_id}/remaining_log_retention_days"
    assert user.get(message)["remainingDays"] in (29, 30)
    user.done("PUT", f"/api/v1/trials/{trial_id}/retain_logs", {"numDays": -1})
    assert user.get(message)["remainingDays"] == -1
    path = f"/api/v1/trials/{trial_id}/retain_logs"
    assert user.ask("PUT", path, {"numDays": -2}).status == 400


def test_search_preview_creates_no_experiment(user: Caller) -> None:
    config = {
        "hyperparameters": {"lr": {"type": "double", "minval": 0, "maxval": 1}},
        "searcher": RANDOM,
    }
    summary = user.post("/api/v1/preview-hp-search", {"config": config})["summary"]
    assert summary["trials"] == [{"count": 2, "unit": {"maxLength": True}}]
    assert user.get("/api/v1/experiments")["experiments"] == []


def test_metrics_are_streamed_by_trial_and_step(user: Caller) -> None:
    trials = [trial_of(user, create(user))["id"] for _ in range(2)]
    for trial_id in trials:
        for steps in (2, 1):
            assert report_metrics(user, trial_id, "training", steps, {"loss": steps}).status == 200
        report_metrics(user, trial_id, "validation", 2, {"val": float("inf")})
    query = {"trialIds": [str(t) for t in trials]}
    lines = user.lines("/api/v1/trials/metrics/training_metrics", query)
    reports = [r for message in lines for r in message["metrics"]]
    assert [(r["trialId"], r["totalBatches"]) for r in reports] == [
        (t, s) for t in trials for s in (1, 2)
    ]
    assert reports[0]["metrics"]["avg_metrics"] == {"loss": 1}
    (validations,) = user.lines("/api/v1/trials/metrics/validation_metrics", query)
    assert validations["metrics"][0]["metrics"] == {"validation_metrics": {"val": "Infinity"}}
    response = user.ask(
        "GET", "/api/v1/trials/metrics/training_metrics", query={"trialIds": ["999"]}
    )
    assert (response.status, response.error) == (404, "trials not found: 999")


def test_streams_longer_than_a_batch_are_complete(
    user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("det_controlplane.services.trials.metric_streams.BATCH", 2)
    trial_id = trial_of(user, create(user))["id"]
    for steps in range(1, 6):
        report_metrics(user, trial_id, "training", steps, {"loss": steps})
    lines = user.lines("/api/v1/trials/metrics/trial_metrics", {"trialIds": [str(trial_id)]})
    reports = [r for m in lines for r in m["metrics"]]
    assert [r["totalBatches"] for r in reports] == [1, 2, 3, 4, 5]
    rest = {"trialIds": [str(trial_id)], "after": [str(reports[2]["id"])]}
    lines = user.lines("/api/v1/trials/metrics/trial_metrics", rest)
    assert [r["totalBatches"] for m in lines for r in m["metrics"]] == [4, 5]


def test_streams_continue_only_behind_a_report_of_their_trials(user: Caller) -> None:
    first, second = (trial_of(user, create(user))["id"] for _ in range(2))
    report_metrics(user, first, "training", 1, {"loss": 1})
    path = "/api/v1/trials/metrics/training_metrics"
    (line,) = user.lines(path, {"trialIds": [str(first)]})
    query = {"trialIds": [str(second)], "after": [str(line["metrics"][0]["id"])]}
    answer = user.ask("GET", path, query=query)
    assert answer.status == 404
    assert "of these trials not found" in answer.error
