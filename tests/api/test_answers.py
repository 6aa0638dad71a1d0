"""Answers about experiments, trials, checkpoints, jobs and tasks have the shapes that OpenAPI shows."""

import json
from typing import Any

import pytest
from det_controlplane.api import answers, routes
from det_controlplane.api.openapi import description

from tests.support.api import PASSWORD, Api, Caller, create, report_checkpoint, trial_of
from tests.support.played_agent import PlayedAgent

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_DEFINITIONS: dict[str, Any] = description(routes.every())["definitions"]


def differences(value: Any, schema: dict[str, Any], at: str) -> list[str]:
    """Return where a value differs from a schema: in its type, or by a field too many or too few."""
    if value is None and schema.get("x-nullable"):
        return []
    for inner in schema.get("allOf", ()):
        return differences(value, inner, at)
    if "$ref" in schema:
        return differences(value, _DEFINITIONS[schema["$ref"].rpartition("/")[2]], at)
    kind = schema.get("type")
    if kind is None:
        return []
    if not _is_of(value, kind):
        return [f"{at} is not of type {kind}: {value!r}"]
    if kind == "array":
        return [
            d
            for i, item in enumerate(value)
            for d in differences(item, schema["items"], f"{at}[{i}]")
        ]
    fields = schema.get("properties")
    if fields is None:
        return []
    names = [f"{at} lacks {name}" for name in schema.get("required", ()) if name not in value]
    names += [f"{at}.{name} is not declared" for name in value if name not in fields]
    shared = [name for name in value if name in fields]
    return names + [d for n in shared for d in differences(value[n], fields[n], f"{at}.{n}")]


def _is_of(value: object, kind: str) -> bool:
    # In Python a bool is an int.
    return isinstance(value, _TYPES[kind]) and isinstance(value, bool) == (kind == "boolean")


def hold(answer: dict[str, Any], shape: type) -> None:
    assert differences(answer, {"$ref": f"#/definitions/{shape.__name__}"}, shape.__name__) == []


def test_responses_have_the_declared_shapes(api: Api, admin: Caller) -> None:
    running, queued = create(admin, activate=True), create(admin, activate=True)
    agent = PlayedAgent(api, "a")
    agent.join()
    api.tick()
    agent.poll()
    trial = trial_of(admin, running)
    uuid = report_checkpoint(admin, running)
    v1 = "/api/v1"
    hold(admin.get(f"{v1}/experiments/{running}"), answers.OneExperiment)
    hold(admin.get(f"{v1}/experiments/{queued}"), answers.OneExperiment)
    hold(admin.get(f"{v1}/experiments"), answers.Experiments)
    hold(admin.get(f"{v1}/trials/{trial['id']}"), answers.OneTrial)
    hold(admin.get(f"{v1}/experiments/{running}/trials"), answers.Trials)
    hold(admin.get(f"{v1}/checkpoints/{uuid}"), answers.OneCheckpoint)
    hold(admin.get(f"{v1}/trials/{trial['id']}/checkpoints"), answers.Checkpoints)
    hold(admin.get(f"{v1}/job-queues"), answers.Jobs)
    hold(admin.get(f"{v1}/job-queues-v2"), answers.JobEntries)
    hold(admin.get(f"{v1}/tasks/{trial['taskId']}"), answers.OneTask)


def test_people_workspaces_models_and_agents_have_the_declared_shapes(
    api: Api, admin: Caller
) -> None:
    v1 = "/api/v1"
    PlayedAgent(api, "a").join()
    create(admin)
    credentials = {"username": "admin", "password": PASSWORD}
    hold(admin.post(f"{v1}/auth/login", credentials), answers.SignedIn)
    hold(admin.get(f"{v1}/me"), answers.OneUser)
    hold(admin.get(f"{v1}/users"), answers.Users)
    hold(admin.post(f"{v1}/users", {"user": {"username": "ada", "active": True}}), answers.OneUser)
    hold(admin.get(f"{v1}/users/ada/by-username"), answers.OneUser)
    group = {"agentUid": 7, "agentUser": "ada", "agentGid": 8, "agentGroup": "staff"}
    made = admin.post(f"{v1}/workspaces", {"name": "w", "agentUserGroup": group})
    hold(made, answers.EditedWorkspace)
    workspace = made["workspace"]["id"]
    hold(admin.get(f"{v1}/workspaces"), answers.Workspaces)
    hold(
        admin.ask("PATCH", f"{v1}/workspaces/{workspace}", {"name": "x"}).json(),
        answers.EditedWorkspace,
    )
    made = admin.post(f"{v1}/workspaces/{workspace}/projects", {"name": "p"})
    hold(made, answers.OneProject)
    hold(admin.get(f"{v1}/projects/{made['project']['id']}"), answers.OneProject)
    hold(admin.post(f"{v1}/models", {"name": "m", "metadata": {"a": 1}}), answers.OneModel)
    hold(admin.get(f"{v1}/models"), answers.Models)
    hold(admin.get(f"{v1}/models/m"), answers.OneModel)
    hold(admin.get(f"{v1}/agents"), answers.Agents)
    hold(admin.get(f"{v1}/agents/a"), answers.OneAgent)


def test_experiments_answer_changes_with_the_declared_shapes(api: Api, admin: Caller) -> None:
    v1 = "/api/v1"
    config = json.dumps(
        {
            "entrypoint": "true",
            "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 1}},
        }
    )
    created = admin.post(f"{v1}/experiments", {"config": config, "activate": True})
    hold(created, answers.CreatedExperiment)
    path = f"{v1}/experiments/{created['experiment']['id']}"
    hold(admin.ask("PATCH", path, {"notes": "n"}).json(), answers.EditedExperiment)
    trial = trial_of(admin, created["experiment"]["id"])
    report = {"trialRunId": 1, "stepsCompleted": 2, "metrics": {"avgMetrics": {"loss": 0.5}}}
    admin.post(f"{v1}/trials/{trial['id']}/metrics", {"group": "validation", "metrics": report})
    query = {"trialIds": [str(trial["id"])], "metricNames": ["loss"], "group": ["validation"]}
    curves = admin.done("GET", f"{v1}/trials/time-series", query=query)
    assert [p["batches"] for p in curves["trials"][0]["metrics"][0]["data"]] == [2]
    hold(curves, answers.ComparedTrials)
    for action in ("pause", "activate", "cancel", "kill"):
        hold(admin.post(f"{path}/{action}", {}), answers.Done)


def test_a_trial_with_validations_has_the_declared_shape(api: Api, admin: Caller) -> None:
    experiment = create(admin, activate=True)
    trial = trial_of(admin, experiment)
    report = {
        "group": "validation",
        "metrics": {
            "trialRunId": 1,
            "stepsCompleted": 2,
            "metrics": {"avgMetrics": {"loss": 0.5}},
        },
    }
    admin.post(f"/api/v1/trials/{trial['id']}/metrics", report)
    uuid = report_checkpoint(admin, experiment)
    answer = admin.get(f"/api/v1/trials/{trial['id']}")
    assert answer["trial"]["bestValidation"]["metrics"]["avgMetrics"] == {"loss": 0.5}
    hold(answer, answers.OneTrial)
    hold(admin.get(f"/api/v1/checkpoints/{uuid}"), answers.OneCheckpoint)


@pytest.mark.parametrize(
    ("answer", "difference"),
    [
        ({"state": "S"}, "x lacks jobsAhead"),
        ({"state": "S", "jobsAhead": 1, "more": 1}, "x.more is not declared"),
        ({"state": "S", "jobsAhead": "1"}, "x.jobsAhead is not of type integer: '1'"),
    ],
)
def test_differences_are_recognised(answer: dict[str, Any], difference: str) -> None:
    schema = {"$ref": "#/definitions/JobSummary"}
    assert differences(answer, schema, "x") == [difference]
