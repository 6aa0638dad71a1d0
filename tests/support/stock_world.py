"""A small cluster that is built and asked by the calls of the stock client, with one of everything in it."""

import base64
import logging
import uuid
from typing import Any

from det_controlplane.services.logs.master_log import StoredLog

from tests.support.api import config_of
from tests.support.stock_asker import World
from tests.support.stock_organization import organization, people, templates, tokens, webhooks
from tests.support.stock_tasks import interactive

SINCE = "2020-01-01T00:00:00Z"
UNTIL = "2100-01-01T00:00:00Z"
FILES = [
    {"path": "src", "type": 53, "content": "", "mtime": "1", "mode": 493, "uid": 0, "gid": 0},
    {
        "path": "src/train.py", "type": 48, "content": base64.b64encode(b"print(1)").decode(),
        "mtime": "1", "mode": 420, "uid": 0, "gid": 0,
    },
]  # fmt: skip
RANDOM = {"name": "random", "metric": "loss", "max_trials": 2, "max_length": {"batches": 4}}

ADAPTIVE = {
    "name": "adaptive_asha", "metric": "loss", "time_metric": "batches", "max_time": 16, "max_trials": 4,
}  # fmt: skip


def build(world: World) -> None:
    """Make everything, ask for it while it is in motion, and again when it has ended."""
    people(world)
    tokens(world)
    organization(world)
    templates(world)
    webhooks(world)
    cluster(world)
    machines(world)
    experiment_id = creation(world)
    alert = {"title": "Diverged", "description": "", "level": "LOG_LEVEL_INFO"}
    world.ask("post_PostWebhookEventData", {"data": alert, "experimentId": experiment_id})
    running_task(world, experiment_id)
    look(world, experiment_id)
    registry(world, experiment_id)
    ending(world, experiment_id)
    unmanaged(world)
    interactive(world)
    many(world)
    look(world, experiment_id)
    tables(world)
    usage(world)


def cluster(world: World) -> None:
    ask = world.ask
    ask("get_health")
    ask("get_GetTelemetry")
    ask("get_GetMasterConfig")
    change = {"config": {"log": {"level": "LOG_LEVEL_INFO"}}, "fieldMask": {"paths": ["log.level"]}}
    ask("patch_PatchMasterConfig", change)
    message = {"message": "maintenance at noon", "startTime": SINCE, "endTime": UNTIL}
    ask("put_SetClusterMessage", message)
    ask("get_GetClusterMessage")
    ask("get_GetMaster")
    ask("delete_DeleteClusterMessage")
    ask("get_GetMaster")
    line = logging.makeLogRecord({"levelno": logging.WARNING, "levelname": "WARN", "msg": "odd"})
    StoredLog(world.api.ctx.db).handle(line)
    ask("get_MasterLogs")
    ask("post_CleanupLogs")


def machines(world: World) -> None:
    ask, agent = world.ask, {"agentId": "a1"}
    world.agent.join()
    ask("get_GetAgents")
    ask("get_GetAgent", **agent)
    ask("get_GetSlots", **agent)
    ask("get_GetSlot", **agent, slotId=0)
    ask("post_DisableSlot", {"drain": False}, **agent, slotId=0)
    ask("post_EnableSlot", **agent, slotId=0)
    ask("post_DisableAgent", {"drain": True}, **agent)
    ask("get_GetAgents")
    ask("post_EnableAgent", **agent)


def creation(world: World) -> int:
    """Return the id of an experiment that waits for slots."""
    ask = world.ask
    for searcher in (RANDOM, ADAPTIVE):
        ask("post_PreviewHPSearch", {"config": {"searcher": searcher}, "seed": 1})
    text = config_of(description="counts", labels=["first"], resources={"slots_per_trial": 2})
    new = {"config": text, "modelDefinition": FILES, "activate": True, "projectId": 1}
    ask("post_CreateExperiment", {**new, "validateOnly": True})
    experiment = ask("post_CreateExperiment", new)["experiment"]
    here = {"experimentId": experiment["id"]}
    ask("get_GetModelDef", **here)
    ask("get_GetModelDefTree", **here)
    ask("post_GetModelDefFile", {"path": "src/train.py"}, **here)
    ask("put_PutExperimentLabel", **here, label="second")
    ask("delete_DeleteExperimentLabel", **here, label="second")
    ask("get_GetExperimentLabels")
    ask("put_PutExperimentRetainLogs", {"experimentId": experiment["id"], "numDays": 30}, **here)
    resources = {"maxSlots": 4, "priority": 7, "weight": 2.0}
    storage = {"saveExperimentBest": 1, "saveTrialBest": 1, "saveTrialLatest": 1}
    body = {
        "name": "counted",
        "notes": "good",
        "resources": resources,
        "checkpointStorage": storage,
    }
    ask("patch_PatchExperiment", {"id": experiment["id"], **body}, experiment_id=experiment["id"])
    jobs(world, experiment["jobId"])
    return int(experiment["id"])


def jobs(world: World, job_id: str) -> None:
    ask = world.ask
    ask("get_GetJobs", query={"resourcePool": "default"})
    ask("get_GetJobsV2", query={"resourcePool": "default"})
    ask("get_GetJobQueueStats")
    ask("post_UpdateJobQueue", {"updates": [{"jobId": job_id, "priority": 9}]})


def running_task(world: World, experiment_id: int) -> None:
    """Run the container of the experiment's trial, which asks and reports as harnesses do."""
    ask = world.ask
    world.api.tick()
    (container,) = world.agent.poll()
    world.agent.poll(host_ports={"1734": 21734}, runtime_id="pid-1")
    allocation = {"allocationId": container["allocation_id"]}
    resources = {**allocation, "resourcesId": container["id"]}
    trial = ask("get_GetExperimentTrials", experimentId=experiment_id)["trials"][0]
    gather = {**allocation, "requestUuid": str(uuid.uuid4()), "numPeers": 1, "data": {"rank": 0}}
    ask("get_AllocationRendezvousInfo", **resources)
    ask("post_AllocationAllGather", gather, **allocation)
    ask("post_NotifyContainerRunning", gather, **allocation)
    ask("post_AllocationReady", allocation, **allocation)
    ask("post_AllocationWaiting", allocation, **allocation)
    ask("post_PostAllocationProxyAddress", {"proxyAddress": "127.0.0.1"}, **allocation)
    device = {"containerId": container["id"], "acceleratorType": "cpu", "acceleratorUuids": ["0"]}
    ask(
        "post_PostAllocationAcceleratorData",
        {**allocation, "acceleratorData": device},
        **allocation,
    )
    ask("get_AllocationPreemptionSignal", query={"timeoutSeconds": 0}, **allocation)
    ask("post_AllocationPendingPreemptionSignal", allocation, **allocation)
    ask("post_MarkAllocationResourcesDaemon", resources, **resources)
    ask("get_GetTaskAcceleratorData", taskId=trial["taskId"])
    ask("get_GetTaskContextDirectory", taskId=trial["taskId"])
    reports(world, trial, allocation["allocationId"])
    logs(world, trial, container)


def reports(world: World, trial: Any, allocation_id: str) -> None:
    ask, trial_id = world.ask, trial["id"]
    ask(
        "post_RunPrepareForReporting",
        {"runId": trial_id, "checkpointStorage": {"type": "directory", "container_path": "/c"}},
    )
    ask("post_PostTrialRunnerMetadata", {"state": "training"}, trialId=trial_id)
    ask(
        "post_ReportTrialProgress",
        {"trialId": trial_id, "progress": 0.5, "isRaw": True},
        trialId=trial_id,
    )
    values = {"avgMetrics": {"loss": 0.5, "odd": "NaN"}, "batchMetrics": [{"loss": 1.0}]}
    report = {"trialId": trial_id, "trialRunId": 1, "stepsCompleted": 2, "metrics": values}
    for group in ("training", "validation", "inference"):
        ask(
            "post_ReportTrialMetrics", {"group": group, "metrics": report}, metrics_trialId=trial_id
        )
    profile(world, trial_id)
    later = {**report, "stepsCompleted": 3}
    ask("post_ReportTrialTrainingMetrics", later, trainingMetrics_trialId=trial_id)
    ask("post_ReportTrialValidationMetrics", later, validationMetrics_trialId=trial_id)
    world.checkpoints = [str(uuid.uuid4()) for _ in range(3)]
    for steps, checkpoint in enumerate(world.checkpoints, 2):
        ask(
            "post_ReportCheckpoint",
            {
                "uuid": checkpoint, "taskId": trial["taskId"], "allocationId": allocation_id,
                "resources": {"state": "1", "code/": "0"}, "metadata": {"steps_completed": steps},
                "state": "STATE_COMPLETED", "reportTime": "2026-11-20T10:00:00Z", "training": {},
            },
        )  # fmt: skip
    ask("post_PostRunMetadata", {"metadata": {"team": "a"}, "runId": trial_id}, runId=trial_id)
    ask("get_GetRunMetadata", runId=trial_id)
    source = {"trialId": trial_id, "checkpointUuid": world.checkpoints[0]}
    kind = {"trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_INFERENCE"}
    ask("post_ReportTrialSourceInfo", {"trialSourceInfo": {**source, **kind}})


def profile(world: World, trial_id: int) -> None:
    ask = world.ask
    kind = "PROFILER_METRIC_TYPE_SYSTEM"
    labels = {"trialId": trial_id, "name": "gpu_util", "agentId": "a1", "gpuUuid": "GPU-1"}
    batch = {
        "values": [0.5], "batches": [2], "timestamps": ["2026-11-20T10:00:00Z"],
        "labels": {**labels, "metricType": kind},
    }  # fmt: skip
    ask("post_PostTrialProfilerMetricsBatch", {"batches": [batch]})
    ask("get_GetTrialProfilerAvailableSeries", trialId=trial_id)
    ask("get_GetTrialProfilerMetrics", query={"labels.name": "gpu_util"}, labels_trialId=trial_id)


def logs(world: World, trial: Any, container: Any) -> None:
    ask = world.ask
    line = {
        "taskId": trial["taskId"], "allocationId": container["allocation_id"], "agentId": "a1",
        "containerId": container["id"], "rankId": 0, "level": "LOG_LEVEL_INFO", "source": "task",
        "stdtype": "stdout", "timestamp": "2026-11-20T10:00:00Z", "log": "hello\n",
    }  # fmt: skip
    ask("post_PostTaskLogs", {"logs": [line]})
    ask("get_TaskLogs", taskId=trial["taskId"])
    ask("get_TaskLogsFields", taskId=trial["taskId"])
    ask("get_TrialLogs", trialId=trial["id"])
    ask("get_TrialLogsFields", trialId=trial["id"])
    ask("put_PutTrialRetainLogs", {"numDays": 7, "trialId": trial["id"]}, trialId=trial["id"])
    ask("get_GetTrialRemainingLogRetentionDays", id=trial["id"])


def tables(world: World) -> None:
    """Ask for everything as rows of tables, and act on runs."""
    ask, project = world.ask, {"id": 1}
    ask("post_SearchExperiments", {"sort": "id=asc", "limit": -1})
    ask("get_GetProjectColumns", **project)
    ask("get_GetProjectNumericMetricsRange", **project)
    ask("get_GetMetadataValues", projectId=1, key="team")
    every = ask("post_SearchRuns", {"projectId": 1, "limit": -1, "sort": "id=asc"})["runs"]
    selection = {"runIds": [run["id"] for run in every], "projectId": 1}
    for call in ("Kill", "Pause", "Resume", "Archive"):
        ask(f"post_{call}Runs", selection)
    ask("post_SearchRuns", {"projectId": 1})
    ask("post_UnarchiveRuns", selection)
    there = {"sourceProjectId": 1, "destinationProjectId": 1, "skipMultitrial": True}
    ask("post_MoveRuns", {"runIds": selection["runIds"], **there})
    ask("post_DeleteRuns", {"runIds": [0]})


def look(world: World, experiment_id: int) -> None:
    """Ask for everything about an experiment."""
    ask, here = world.ask, {"experimentId": experiment_id}
    trial = ask("get_GetExperimentTrials", **here)["trials"][0]
    ask("get_GetExperiment", **here)
    ask("get_GetExperiments", query={"showTrialData": "true"})
    ask("get_GetExperimentCheckpoints", id=experiment_id)
    ask("get_GetBestSearcherValidationMetric", **here)
    ask("get_GetTrial", trialId=trial["id"])
    ask("get_GetTrialCheckpoints", id=trial["id"])
    query = {"includeBatchMetrics": "true", "metricType": "METRIC_TYPE_UNSPECIFIED"}
    ask("get_GetTrialWorkloads", query=query, trialId=trial["id"])
    one = {"trialIds": [str(trial["id"])]}
    ask("get_GetTrainingMetrics", query=one)
    ask("get_GetValidationMetrics", query=one)
    ask("get_GetMetrics", query={**one, "group": "inference"})
    ask("get_ExpMetricNames", query={"ids": [str(experiment_id)]})
    loss = {"metricName": "loss", "group": "validation"}
    ask("get_MetricBatches", query=loss, **here)
    ask("get_TrialsSnapshot", query={**loss, "batchesProcessed": 2}, **here)
    ask("get_TrialsSample", query=loss, **here)
    ask("get_CompareTrials", query={**one, "metricNames": "loss", "group": "validation"})
    ask("get_GetExperimentValidationHistory", **here)
    ask("get_GetActiveTasksCount")
    for checkpoint in world.checkpoints:
        ask("get_GetCheckpoint", checkpointUuid=checkpoint)
    task = ask("get_GetTask", taskId=trial["taskId"])["task"]
    ask("get_GetAllocation", allocationId=task["allocations"][0]["allocationId"])
    ask("get_GetTasks")
    ask("get_GetAgents")
    ask("get_GetSlots", agentId="a1")
    ask("get_GetJobs", query={"resourcePool": "default"})
    ask("get_GetJobsV2", query={"resourcePool": "default"})
    ask("get_GetJobQueueStats")
    ask("get_GetResourcePools")
    ask("get_GetProject", id=1)
    ask("get_GetWorkspaces")
    for kind in ("Commands", "Notebooks", "Shells", "Tensorboards"):
        ask(f"get_Get{kind}")


def registry(world: World, experiment_id: int) -> None:
    ask, name = world.ask, {"modelName": "counter"}
    about = {"description": "counts", "labels": ["a"], "metadata": {"k": 1}, "notes": "n"}
    ask("post_PostModel", {"name": "counter", "workspaceId": 1, **about})
    version = {"checkpointUuid": world.checkpoints[0], "modelName": "counter"}
    body = {"name": "v1", "comment": "best", "labels": ["b"], "metadata": {}, "notes": "n"}
    ask("post_PostModelVersion", {**version, **body}, **name)
    ask("post_PostModelVersion", version, **name)
    first = {**name, "modelVersionNum": 1}
    ask("patch_PatchModelVersion", {"comment": "better"}, **first)
    ask("get_GetModelVersion", **first)
    ask("get_GetModelVersions", **name)
    ask("patch_PatchModel", {"description": "counts well"}, **name)
    ask("post_ArchiveModel", **name)
    ask("post_UnarchiveModel", **name)
    ask("get_GetModel", **name)
    ask("get_GetModels")
    ask("get_GetModelLabels")
    trial = ask("get_GetExperimentTrials", experimentId=experiment_id)["trials"][0]
    model_id = ask("get_GetModel", **name)["model"]["id"]
    source = {
        "trialId": trial["id"], "checkpointUuid": world.checkpoints[0], "modelId": model_id, "modelVersion": 1,
        "trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_INFERENCE",
    }  # fmt: skip
    ask("post_ReportTrialSourceInfo", {"trialSourceInfo": source})
    ask("get_GetTrialMetricsByModelVersion", **first)
    ask("get_GetTrialMetricsByCheckpoint", checkpointUuid=world.checkpoints[0])
    target = ask("post_PostWorkspace", {"name": "production"})["workspace"]["id"]
    ask("post_MoveModel", {"modelName": "counter", "destinationWorkspaceId": target}, **name)
    ask("delete_DeleteModelVersion", **{**name, "modelVersionNum": 2})
    ask("delete_DeleteModel", **name)


def ending(world: World, experiment_id: int) -> None:
    """Pause the experiment, run it to its end, continue it, and delete its files."""
    ask, here = world.ask, {"id": experiment_id}
    ask("post_PauseExperiment", **here)
    (container,) = world.agent.poll()
    signal = {"allocationId": container["allocation_id"]}
    ask("get_AllocationPreemptionSignal", query={"timeoutSeconds": 0}, **signal)
    ask("post_AckAllocationPreemptionSignal", signal, **signal)
    world.agent.poll("terminated", exit_code=0)
    ask("get_GetExperiment", experimentId=experiment_id)
    ask("post_ActivateExperiment", **here)
    world.api.tick()
    world.agent.poll()
    world.agent.poll("terminated", exit_code=1, failure="container_failed")
    experiment = ask("get_GetExperiment", experimentId=experiment_id)["experiment"]
    assert experiment["state"] == "STATE_ERROR", experiment["state"]
    ask("post_ContinueExperiment", {"id": experiment_id, "overrideConfig": "{}"})
    ask("post_CancelExperiment", **here)
    first, second, third = world.checkpoints
    ask(
        "post_PostCheckpointMetadata",
        {"checkpoint": {"uuid": first, "metadata": {"k": "v"}}},
        checkpoint_uuid=first,
    )
    ask(
        "post_CheckpointsRemoveFiles", {"checkpointUuids": [second], "checkpointGlobs": ["code/**"]}
    )
    ask(
        "patch_PatchCheckpoints",
        {"checkpoints": [{"uuid": second, "resources": {"resources": {"state": "1"}}}]},
    )
    ask("delete_DeleteCheckpoints", {"checkpointUuids": [third]})
    ask("delete_DeleteTensorboardFiles", experimentId=experiment_id)
    ask("post_ArchiveExperiment", **here)
    ask("post_UnarchiveExperiment", **here)


def unmanaged(world: World) -> None:
    ask = world.ask
    new = {"config": config_of(), "unmanaged": True}
    experiment_id = ask("put_PutExperiment", new, externalExperimentId="mine")["experiment"]["id"]
    trial = {"experimentId": experiment_id, "hparams": {"lr": 1}, "unmanaged": True}
    ask("post_CreateTrial", trial)
    ask("put_PutTrial", {"createTrialRequest": trial, "externalTrialId": "first"})
    here = {"externalExperimentId": "mine", "externalTrialId": "first"}
    trial_id = ask("get_GetTrialByExternalID", **here)["trial"]["id"]
    ask("post_StartTrial", {"trialId": trial_id, "resume": False}, trialId=trial_id)
    checkpoint = {
        "uuid": str(uuid.uuid4()),
        "state": "STATE_COMPLETED",
        "resources": {"state": "1"},
    }
    task_id = ask("get_GetTrial", trialId=trial_id)["trial"]["taskId"]
    steps = {"steps_completed": 2}
    ask(
        "post_ReportCheckpoint",
        {**checkpoint, "taskId": task_id, "metadata": steps, "training": {}},
    )
    ask("post_StartTrial", {"trialId": trial_id, "resume": True}, trialId=trial_id)
    ask("patch_PatchTrial", {"trialId": trial_id, "state": "STATE_COMPLETED"}, trialId=trial_id)
    ask("get_GetExperiment", experimentId=experiment_id)


def many(world: World) -> None:
    """Act on several experiments at once, and delete one."""
    ask = world.ask
    new = {"config": config_of(), "activate": False}
    ids = [ask("post_CreateExperiment", new)["experiment"]["id"] for _ in range(2)]
    trial_id = ask("get_GetExperimentTrials", experimentId=ids[0])["trials"][0]["id"]
    ask(
        "post_ReportTrialSearcherEarlyExit",
        {"reason": "EXITED_REASON_INVALID_HP"},
        trialId=trial_id,
    )
    ask("post_KillTrial", id=trial_id)
    target = {"name": "kept", "workspaceId": 1}
    project = ask("post_PostWorkspace", {"name": "archive"})["workspace"]["id"]
    target = {"name": "kept", "workspaceId": project}
    project_id = ask("post_PostProject", target, workspaceId=project)["project"]["id"]
    these = {"projectId": 1, "experimentIds": ids}
    for action in ("Activate", "Pause", "Cancel", "Kill", "Archive", "Unarchive"):
        ask(f"post_{action}Experiments", these, projectId=1)
    ask("put_PutExperimentsRetainLogs", {**these, "numDays": 3}, projectId=1)
    ask("post_MoveExperiments", {**these, "destinationProjectId": project_id}, projectId=1)
    move = {"experimentId": ids[0], "destinationProjectId": 1}
    ask("post_MoveExperiment", move, experimentId=ids[0])
    ask("post_KillExperiment", id=ids[0])
    ask("delete_DeleteExperiment", experimentId=ids[0])
    ask(
        "delete_DeleteExperiments",
        {"projectId": project_id, "experimentIds": ids[1:]},
        projectId=project_id,
    )


def usage(world: World) -> None:
    ask = world.ask
    ask("get_ResourceAllocationRaw", query={"timestampAfter": SINCE, "timestampBefore": UNTIL})
    for period in ("DAILY", "MONTHLY"):
        name = f"RESOURCE_ALLOCATION_AGGREGATION_PERIOD_{period}"
        days = {"startDate": "2026-11-01", "endDate": "2026-11-30"}
        ask("get_ResourceAllocationAggregated", query={**days, "period": name})
