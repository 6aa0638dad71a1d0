"""A training over two machines that afterwards sends each request of a container with its token, and requests for the
things of others; prints how they were answered."""

import json
import os
import pathlib
import urllib.error
import urllib.request
import uuid
from typing import Any

import determined as det

STEPS = 4
Asked = tuple[str, str, Any]


def status_of(method: str, path: str, body: Any) -> int:
    token = os.environ["DET_SESSION_TOKEN"]
    request = urllib.request.Request(
        f"{os.environ['DET_MASTER']}/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as e:
        return e.code


def of_its_own(info: Any, checkpoint: str) -> list[Asked]:
    trial, experiment = info.trial.trial_id, info.trial.experiment_id
    allocation, task = info.allocation_id, info.task_id
    here, place = f"api/v1/allocations/{allocation}", f"api/v1/trials/{trial}"
    meeting = {
        "allocationId": allocation,
        "data": {},
        "numPeers": 1,
        "requestUuid": str(uuid.uuid4()),
    }
    container = os.environ["DET_CONTAINER_ID"]
    accelerator = {"containerId": container, "allocationId": allocation, "taskId": task}
    source = {
        "trialId": trial,
        "checkpointUuid": checkpoint,
        "trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_INFERENCE",
    }
    return [
        ("GET", "api/v1/master", None),
        ("GET", "api/v1/me", None),
        ("POST", f"{here}/acceleratorData", {"acceleratorData": accelerator}),
        ("POST", f"{here}/all_gather", meeting),
        ("POST", f"{here}/notify_container_running", meeting),
        ("POST", f"{here}/ready", {}),
        ("GET", f"{here}/resources/{os.environ['DET_RESOURCES_ID']}/rendezvous", None),
        ("GET", f"{here}/signals/preemption?timeoutSeconds=0", None),
        ("GET", f"api/v1/checkpoints/{checkpoint}", None),
        ("PATCH", "api/v1/checkpoints", {"checkpoints": [{"uuid": checkpoint}]}),
        ("GET", f"api/v1/experiments/{experiment}/searcher/best_searcher_validation_metric", None),
        ("POST", "api/v1/runs/start", {"runId": trial}),
        ("POST", f"api/v1/runs/{trial}/metadata", {"runId": trial, "metadata": {"boxed": True}}),
        ("GET", f"api/v1/runs/{trial}/metadata", None),
        ("POST", "api/v1/task/logs", {"logs": [{"taskId": task, "log": "by hand\n"}]}),
        ("GET", f"api/v1/tasks/{task}/context_directory", None),
        ("POST", "api/v1/trial-source-info", {"trialSourceInfo": source}),
        ("GET", place, None),
        ("POST", f"{place}/progress", {"trialId": trial, "progress": 0.9, "isRaw": True}),
        ("POST", f"{place}/runner/metadata", {"state": "validating"}),
        ("POST", "api/v1/webhooks/custom", {"experimentId": experiment, "data": {"title": "done"}}),
    ]  # fmt: skip


def of_others(other: dict[str, Any]) -> list[Asked]:
    trial, experiment, task = other["trial"], other["experiment"], other["task"]
    return [
        ("GET", "api/v1/experiments", None),
        ("GET", f"api/v1/experiments/{experiment}", None),
        ("GET", f"api/v1/experiments/{experiment}/model_def", None),
        ("POST", f"api/v1/experiments/{experiment}/kill", {}),
        ("POST", "api/v1/experiments", {"config": "name: more"}),
        ("POST", "api/v1/experiments-search", {}),
        ("POST", "api/v1/runs", {}),
        ("GET", f"api/v1/trials/{trial}", None),
        ("GET", f"api/v1/trials/{trial}/logs", None),
        ("POST", f"api/v1/trials/{trial}/progress", {"trialId": trial, "progress": 0.5}),
        ("POST", "api/v1/runs/move", {"runIds": [trial]}),
        ("GET", f"api/v1/tasks/{task}/context_directory", None),
        ("POST", "api/v1/task/logs", {"logs": [{"taskId": task, "log": "forged\n"}]}),
        ("POST", "api/v1/webhooks/custom", {"experimentId": experiment, "data": {"title": "forged"}}),
        ("GET", "api/v1/tasks", None),
        ("POST", "api/v1/commands", {"config": {"entrypoint": ["true"]}}),
        ("POST", "api/v1/models", {"name": "taken"}),
        ("GET", "api/v1/users", None),
        ("GET", "api/v1/workspaces", None),
        ("GET", "api/v1/agents", None),
        ("GET", "api/v1/master/config", None),
        ("POST", "api/v1/tokens", {}),
        ("POST", "api/v1/contexts", {"size": 1, "sha256": "0" * 64}),
    ]  # fmt: skip


def tried(requests: list[Asked]) -> str:
    return json.dumps(
        {f"{method} {path}": status_of(method, path, body) for method, path, body in requests}
    )


def main() -> None:
    info = det.get_cluster_info()
    assert info is not None
    assert info.trial is not None
    rank, size = info.container_rank, len(info.container_addrs)
    peers = det.core.DistributedContext(
        rank=rank, size=size, local_rank=0, local_size=1, cross_rank=rank, cross_size=size,
        chief_ip=info.container_addrs[0],
    )  # fmt: skip
    checkpoint = ""
    with det.core.init(distributed=peers) as core:
        for step in range(1, STEPS + 1):
            assert sum(peers.allgather(step)) == size * step
            if rank == 0:
                core.train.report_training_metrics(step, {"loss": 1 / step})
        if rank == 0:
            core.train.report_validation_metrics(STEPS, {"loss": 1 / STEPS})
            with core.checkpoint.store_path({"steps_completed": STEPS}) as (path, checkpoint):
                (pathlib.Path(path) / "state").write_text("trained")
            with core.checkpoint.restore_path(checkpoint) as path:
                assert (path / "state").read_text() == "trained"
            print("own:", tried(of_its_own(info, checkpoint)))
            print("others:", tried(of_others(info.trial.hparams["other"])))


if __name__ == "__main__":
    main()
