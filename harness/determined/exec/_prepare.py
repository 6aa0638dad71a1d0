"""Prepare the task's files: its context, and information about the task and its other containers."""

import base64
import io
import json
import os
import tarfile
import time
from typing import Any, Dict, Iterator, List, Mapping

from determined import _paths, profiler
from determined._task_session import bounded_task_session
from determined.common.context_download import fetched
from determined.common.http import APIError, Session
from determined.exec._gateway import answered

RENDEZVOUS_RETRY_S = 0.5
RENDEZVOUS_READ_TIMEOUT_S = 120.0
STILL_WAITING = (502, 503, 504)


class UnsafeArchive(ValueError):
    """A member of the context archive would be extracted outside of the target directory."""


def extract_context(session: Session, task_id: str, targets: List[str]) -> None:
    """Extract the context into each target: the work directory, and a copy that the task does not change."""
    for target in targets:
        os.makedirs(target, exist_ok=True)
    archive = _fetch_context(session, task_id)
    if not archive:
        return
    for target in targets:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            extract_safely(tar, target)


def extract_safely(tar: tarfile.TarFile, target: str) -> None:
    root = os.path.realpath(target)
    for member in _safe_members(tar, root):
        # The extracted files belong to the user that runs the task, not to the owner on the client machine.
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        tar.extract(member, root, set_attrs=not member.issym())


def write_info_files(env: Mapping[str, str]) -> None:
    """Write the environment to a file for shells opened by ssh, which do not inherit the container's environment.

    The other files have exactly the fields that Determined's own harness reads."""
    variables = {k: v for k, v in env.items() if k.startswith(("DET_", "DTRAIN_", "INTER_TRAIN_"))}
    write_info("environment", variables)
    write_info("cluster", _cluster(env))
    if env.get("DET_TRIAL_ID"):
        write_info(
            "trial",
            {
                "trial_id": int(env["DET_TRIAL_ID"]),
                "experiment_id": int(env.get("DET_EXPERIMENT_ID") or 0),
                "trial_seed": int(env.get("DET_TRIAL_SEED") or 0),
                "hparams": json.loads(env.get("DET_HPARAMS") or "{}"),
                "config": json.loads(env.get("DET_EXPERIMENT_CONFIG") or "{}"),
                "steps_completed": int(env.get("DET_STEPS_COMPLETED") or 0),
                "trial_run_id": int(env.get("DET_TRIAL_RUN_ID") or 0),
                "debug": False,
                "inter_node_network_interface": env.get("DET_INTER_NODE_NETWORK_INTERFACE") or None,
            },
        )


def _cluster(env: Mapping[str, str]) -> Dict[str, Any]:
    return {
        "master_url": env.get("DET_MASTER", ""),
        "cluster_id": env.get("DET_CLUSTER_ID", ""),
        "agent_id": env.get("DET_AGENT_ID", ""),
        "slot_ids": json.loads(env.get("DET_SLOT_IDS") or "[]"),
        "task_id": env.get("DET_TASK_ID", ""),
        "allocation_id": env.get("DET_ALLOCATION_ID", ""),
        "session_token": env.get("DET_SESSION_TOKEN", ""),
        "task_type": env.get("DET_TASK_TYPE", "TRIAL"),
        "master_cert_name": env.get("DET_MASTER_CERT_NAME") or None,
        "master_cert_file": env.get("DET_MASTER_CERT_FILE") or None,
        "latest_checkpoint": env.get("DET_LATEST_CHECKPOINT") or None,
    }


def write_info(name: str, content: Dict[str, Any]) -> None:
    os.makedirs(_paths.info_dir(), exist_ok=True)
    path = os.path.join(_paths.info_dir(), f"{name}.json")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        json.dump(content, f)


def report_accelerators(session: Session, env: Mapping[str, str]) -> None:
    uuids = profiler.gpu_uuids() if json.loads(env.get("DET_SLOT_IDS") or "[]") else []
    write_info("resources", {"gpu_uuids": uuids})
    if not uuids:
        return
    allocation_id = env["DET_ALLOCATION_ID"]
    data = {
        "containerId": env.get("DET_CONTAINER_ID", ""),
        "allocationId": allocation_id,
        "nodeName": env.get("DET_AGENT_ID", ""),
        "taskId": env.get("DET_TASK_ID", ""),
        "acceleratorType": "cuda",
        "acceleratorUuids": uuids,
    }
    try:
        path = f"/api/v1/allocations/{allocation_id}/acceleratorData"
        answered(
            lambda: session.post(path, {"allocationId": allocation_id, "acceleratorData": data})
        )
    except APIError:
        # The data is only displayed, so its loss does not fail the task.
        pass


def _fetch_context(session: Session, task_id: str) -> bytes:
    """Download the archive: inline, or from a presigned URL on hosts that limit the size of responses."""
    path = f"/api/v1/tasks/{task_id}/context_directory"
    answer = answered(lambda: session.get(path, timeout_s=600)) or {}
    if answer.get("b64Tgz"):
        return base64.b64decode(answer["b64Tgz"])
    url = answer.get("url") or ""
    if not url.startswith(("https://", "http://")):
        return b""
    return fetched(url)


def _safe_members(tar: tarfile.TarFile, root: str) -> Iterator[tarfile.TarInfo]:
    for member in tar:
        target = os.path.realpath(os.path.join(root, member.name))
        if not _is_within(target, root) or os.path.isabs(member.name):
            raise UnsafeArchive(f"the context holds {member.name!r}, outside of its own directory")
        if member.issym() or member.islnk():
            base = root if member.islnk() else os.path.dirname(target)
            if not _is_within(os.path.realpath(os.path.join(base, member.linkname)), root):
                raise UnsafeArchive(
                    f"the context links {member.name!r} to {member.linkname!r}, "
                    "outside of its own directory"
                )
        elif not (member.isfile() or member.isdir()):
            raise UnsafeArchive(f"the context holds {member.name!r}, which is a device or pipe")
        yield member


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root + os.sep)


def rendezvous(env: Mapping[str, str]) -> Dict[str, Any]:
    """Block until every container runs. Status 504 means that some containers are still missing."""
    session = bounded_task_session(env, retries=0)
    path = (
        f"/api/v1/allocations/{env['DET_ALLOCATION_ID']}"
        f"/resources/{env.get('DET_RESOURCES_ID', '')}/rendezvous"
    )
    while True:
        try:
            # Waits without limit for missing containers, but with a limit for an absent agent.
            answer = answered(
                lambda: session.get(path, timeout_s=RENDEZVOUS_READ_TIMEOUT_S), statuses=()
            )
        except APIError as e:
            if e.status not in STILL_WAITING:
                raise
            time.sleep(RENDEZVOUS_RETRY_S)
        else:
            info: Dict[str, Any] = answer["rendezvousInfo"]
            peers = {
                "container_addrs": info["addresses"],
                "container_rank": info["rank"],
                "container_slot_counts": info["slots"],
            }
            write_info("rendezvous", peers)
            return info
