"""The JSON that stock clients index without asking: names, types, keys that are always there.

See docs/reference/compatibility.md#json-of-the-api."""

import re
import uuid
from typing import Any

import pytest

from tests.support.api import (
    BOOTSTRAP,
    Api,
    Caller,
    config_of,
    create,
    create_ended,
    report_checkpoint,
    report_metrics,
    trial_of,
)

# The fields of a message by the type of each key in Determined's API. `?` after a type allows null.
REQUIRED = {
    "experiment": """archived:bool config:obj id:int jobId:str name:str numTrials:int originalConfig:str projectId:int
        projectOwnerId:int searcherType:str startTime:time state:str username:str""",
    "trial": """experimentId:int hparams:obj id:int restarts:int startTime:time state:str totalBatchesProcessed:int
        taskId:str taskIds:list checkpointCount:int totalCheckpointSize:int64""",
    "checkpoint": "metadata:obj resources:obj state:str training:obj uuid:str",
    "user": "active:bool admin:bool username:str id:int displayName:str agentUserGroup:obj?",
    "workspace": """archived:bool errorMessage:str id:int immutable:bool name:str numExperiments:int numProjects:int
        pinned:bool state:str userId:int username:str""",
    "project": """archived:bool errorMessage:str id:int immutable:bool key:str name:str notes:list
        numActiveExperiments:int numExperiments:int numRuns:int state:str userId:int username:str workspaceId:int""",
    "model": """archived:bool creationTime:time id:int lastUpdatedTime:time metadata:obj name:str numVersions:int
        userId:int username:str workspaceId:int""",
    "modelVersion": "checkpoint:obj creationTime:time id:int lastUpdatedTime:time model:obj version:int",
    "template": "config:obj name:str workspaceId:int",
    "tokenInfo": "id:int userId:int",
    "agent": "id:str slotStats:obj",
    "slotStats": "brandStats:obj typeStats:obj",
    "resourcePool": """agentDockerImage:str agentDockerNetwork:str agentDockerRuntime:str agentFluentImage:str
        auxContainerCapacity:int auxContainerCapacityPerAgent:int auxContainersRunning:int clusterName:str
        containerStartupScript:str defaultAuxPool:bool defaultComputePool:bool description:str details:obj imageId:str
        instanceType:str location:str masterCertName:str masterUrl:str maxAgentStartingPeriod:num maxAgents:int
        maxIdleAgentPeriod:num minAgents:int name:str numAgents:int preemptible:bool resourceManagerMetadata:obj
        schedulerFittingPolicy:str schedulerType:str slotType:str slotsAvailable:int slotsUsed:int
        startupScript:str type:str""",
    "job": """allocatedSlots:int entityId:str isPreemptible:bool jobId:str name:str requestedSlots:int resourcePool:str
        submissionTime:time type:str username:str workspaceId:int""",
    "jobSummary": "jobsAhead:int state:str",
    "task": "allocations:list startTime:time taskId:str taskType:str",
    "allocation": "allocationId:str slots:int state:str taskId:str",
    "metricsReport": """archived:bool endTime:time group:str id:int metrics:obj totalBatches:int trialId:int
        trialRunId:int""",
    "metricsWorkload": "metrics:obj numInputs:int totalBatches:int",
    "checkpointWorkload": "state:str totalBatches:int",
    "taskLog": "id:str level:str log:str message:str taskId:str timestamp:time",
    "trialLog": "id:str level:str message:str timestamp:time trialId:int",
    "master": """clusterId:str clusterName:str hasCustomLogo:bool masterId:str strictJobQueueControl:bool version:str
        rbacEnabled:bool ssoProviders:list telemetryEnabled:bool featureSwitches:list""",
    "pagination": "endIndex:int limit:int offset:int startIndex:int total:int",
    "groupDetails": "groupId:int name:str users:list",
    "searchSummary": "config:obj trials:list",
    "usage": "seconds:num slots:int username:str userId:int startTime:time endTime:time labels:list experimentId:int",
}  # fmt: skip
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
TYPES: dict[str, Any] = {
    "str": str, "int": int, "num": (int, float), "bool": bool, "obj": dict, "list": list, "time": str, "int64": str,
}  # fmt: skip


def check(message: str, value: Any) -> None:
    for key_and_type in REQUIRED[message].split():
        key, kind = key_and_type.split(":")
        assert key in value, f"{message} lacks {key}"
        item = value[key]
        if kind.endswith("?") and item is None:
            continue
        kind = kind.removesuffix("?")
        assert isinstance(item, TYPES[kind]), f"{message}.{key} is {item!r}, not {kind}"
        assert kind == "bool" or not isinstance(item, bool), f"{message}.{key} is {item!r}"
        if kind == "time":
            assert TIME.fullmatch(item), f"{message}.{key} is {item!r}"
        if kind == "int64":
            assert item.isdigit(), f"{message}.{key} is {item!r}"


@pytest.fixture(scope="module")
def busy(shared_api: Api, reader: Caller) -> dict[str, Any]:
    """A cluster with one of everything."""
    api, user = shared_api, reader
    identity = {
        "agent_id": "a1",
        "agent_key": "k",
        "incarnation": str(uuid.uuid4()),
        "pool": "default",
    }
    slots = [{"id": 0, "type": "cpu"}]
    proof = {"kind": "bootstrap_token", "token": BOOTSTRAP}
    api.anonymous().post("/agents/v1/join", {**identity, "slots": slots, "proof": proof})
    experiment_id = create(user, activate=True)
    api.tick()
    trial = trial_of(user, experiment_id)
    for group in ("training", "validation"):
        report_metrics(user, trial["id"], group, 2, {"loss": 0.5}, run=1)
    checkpoint = report_checkpoint(user, experiment_id)
    user.post("/api/v1/models", {"name": "m"})
    user.post("/api/v1/models/m/versions", {"checkpointUuid": checkpoint})
    user.post("/api/v1/templates/t", {"config": {}})
    user.post("/api/v1/tokens", {})
    task_log = {"taskId": trial["taskId"], "log": "hello\n", "timestamp": "2026-11-20T10:00:00Z"}
    user.post("/api/v1/task/logs", {"logs": [task_log]})
    return {
        "experiment": experiment_id,
        "trial": trial["id"],
        "task": trial["taskId"],
        "checkpoint": checkpoint,
    }


ANSWERS = [
    ("experiment", "/api/v1/experiments/{experiment}", "experiment"),
    ("experiment", "/api/v1/experiments", "experiments.0"),
    ("pagination", "/api/v1/experiments", "pagination"),
    ("trial", "/api/v1/trials/{trial}", "trial"),
    ("trial", "/api/v1/experiments/{experiment}/trials", "trials.0"),
    ("metricsWorkload", "/api/v1/trials/{trial}", "trial.bestValidation"),
    ("metricsWorkload", "/api/v1/trials/{trial}", "trial.latestValidation"),
    ("checkpointWorkload", "/api/v1/trials/{trial}", "trial.bestCheckpoint"),
    ("metricsWorkload", "/api/v1/trials/{trial}/workloads", "workloads.0.training"),
    ("metricsWorkload", "/api/v1/trials/{trial}/workloads", "workloads.1.validation"),
    ("checkpointWorkload", "/api/v1/trials/{trial}/workloads", "workloads.2.checkpoint"),
    ("checkpoint", "/api/v1/checkpoints/{checkpoint}", "checkpoint"),
    ("checkpoint", "/api/v1/experiments/{experiment}/checkpoints", "checkpoints.0"),
    ("checkpoint", "/api/v1/trials/{trial}/checkpoints", "checkpoints.0"),
    ("task", "/api/v1/tasks/{task}", "task"),
    ("allocation", "/api/v1/tasks/{task}", "task.allocations.0"),
    ("user", "/api/v1/me", "user"),
    ("user", "/api/v1/users", "users.0"),
    ("workspace", "/api/v1/workspaces/1", "workspace"),
    ("workspace", "/api/v1/workspaces", "workspaces.0"),
    ("project", "/api/v1/projects/1", "project"),
    ("project", "/api/v1/workspaces/1/projects", "projects.0"),
    ("model", "/api/v1/models/m", "model"),
    ("model", "/api/v1/models", "models.0"),
    ("modelVersion", "/api/v1/models/m/versions/1", "modelVersion"),
    ("checkpoint", "/api/v1/models/m/versions/1", "modelVersion.checkpoint"),
    ("model", "/api/v1/models/m/versions", "model"),
    ("modelVersion", "/api/v1/models/m/versions", "modelVersions.0"),
    ("template", "/api/v1/templates/t", "template"),
    ("tokenInfo", "/api/v1/tokens", "tokenInfo.0"),
    ("agent", "/api/v1/agents", "agents.0"),
    ("slotStats", "/api/v1/agents", "agents.0.slotStats"),
    ("resourcePool", "/api/v1/resource-pools", "resourcePools.0"),
    ("job", "/api/v1/job-queues-v2", "jobs.0.full"),
    ("jobSummary", "/api/v1/job-queues-v2", "jobs.0.full.summary"),
    ("master", "/api/v1/master", ""),
]


@pytest.mark.parametrize(
    ("message", "path", "where"), ANSWERS, ids=[f"{p}:{w}" for _, p, w in ANSWERS]
)
def test_responses_contain_every_key_that_clients_use(
    reader: Caller, busy: dict[str, Any], message: str, path: str, where: str
) -> None:
    response = reader.get(path.format(**busy))
    for step in filter(None, where.split(".")):
        response = response[int(step)] if step.isdigit() else response[step]
    check(message, response)


def test_streams_send_whole_messages(reader: Caller, busy: dict[str, Any]) -> None:
    check("taskLog", reader.lines(f"/api/v1/tasks/{busy['task']}/logs")[-1])
    check("trialLog", reader.lines(f"/api/v1/trials/{busy['trial']}/logs")[-1])
    query = {"trialIds": [str(busy["trial"])]}
    for kind in ("training_metrics", "validation_metrics", "trial_metrics"):
        (message,) = reader.lines(f"/api/v1/trials/metrics/{kind}", query)
        check("metricsReport", message["metrics"][0])


def test_validation_returns_an_experiment(user: Caller) -> None:
    request = {"config": config_of(), "validateOnly": True}
    check("experiment", user.post("/api/v1/experiments", request)["experiment"])
    assert user.get("/api/v1/experiments")["experiments"] == []


def test_accepts_frequent_request_bodies_in_snake_case(user: Caller) -> None:
    workspace = user.post("/api/v1/workspaces", {"name": "w"})["workspace"]["id"]
    path = f"/api/v1/workspaces/{workspace}/projects"
    target = user.post(path, {"name": "p"})["project"]["id"]
    request = {"config": config_of(), "project_id": target, "validate_only": False}
    experiment = user.post("/api/v1/experiments", request)["experiment"]
    assert experiment["projectId"] == target
    response = user.get("/api/v1/experiments", project_id=target, order_by="ORDER_BY_DESC")
    assert [e["id"] for e in response["experiments"]] == [experiment["id"]]


def test_sizes_are_decimal_strings_and_infinities_have_names(user: Caller) -> None:
    experiment_id = create_ended(user)
    uuid_ = report_checkpoint(user, experiment_id, model="5000000000")
    checkpoint = user.get(f"/api/v1/checkpoints/{uuid_}")["checkpoint"]
    assert checkpoint["resources"] == {"model": "5000000000"}
    assert (
        user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]["checkpointSize"]
        == "5000000000"
    )
    trial_id = trial_of(user, experiment_id)["id"]
    report_metrics(user, trial_id, "training", 1, {"a": "Nan", "b": "-Infinity", "c": float("nan")})
    query = {"trialIds": [str(trial_id)]}
    (message,) = user.lines("/api/v1/trials/metrics/training_metrics", query)
    avg_metrics = message["metrics"][0]["metrics"]["avg_metrics"]
    assert avg_metrics == {"a": "NaN", "b": "-Infinity", "c": "NaN"}


def test_pagination_has_start_end_and_total(user: Caller) -> None:
    for _ in range(3):
        create(user)
    page = user.get("/api/v1/experiments", limit=2, offset=2)["pagination"]
    assert (page["startIndex"], page["endIndex"], page["total"]) == (2, 3, 3)
    assert len(user.get("/api/v1/experiments", limit=-1)["experiments"]) == 3
    assert user.get("/api/v1/experiments", limit=-2)["experiments"] == []
    last = user.get("/api/v1/experiments", offset=-1)["experiments"]
    assert [e["id"] for e in last] == [3]


def test_trailing_slash_has_no_effect(user: Caller) -> None:
    assert user.get("/api/v1/me/") == user.get("/api/v1/me")


def test_errors_have_the_codes_that_clients_expect(user: Caller) -> None:
    for path, status, code, reason in (
        ("/api/v1/experiments/9", 404, 5, "NotFound"),
        ("/api/v1/experiments/x", 400, 3, "InvalidArgument"),
    ):
        response = user.ask("GET", path)
        error = response.json()["error"]
        assert (response.status, error["code"], error["reason"]) == (status, code, reason)
