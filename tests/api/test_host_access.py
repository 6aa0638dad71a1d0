"""Ordinary users have no way to the machine that runs their code, nor to another user's storage."""

import json
import uuid
from typing import Any

import pytest
from det_controlplane.core.config.cluster import load_cluster

from tests.support.api import (
    POOLS,
    Api,
    ApiResponse,
    Caller,
    config_of,
    create,
    create_ended,
    trial_of,
)

ETC: dict[str, Any] = {"bind_mounts": [{"host_path": "/etc", "container_path": "/there"}]}
DISK: dict[str, Any] = {"resources": {"devices": ["/dev/sda:/dev/sda"]}}
MODULES: dict[str, Any] = {"environment": {"add_capabilities": ["CAP_SYS_MODULE"]}}
ROOT_STORAGE: dict[str, Any] = {"type": "shared_fs", "host_path": "/"}
OF_AGENT: dict[str, Any] = {"environment": {"environment_variables": ["AWS_SECRET_ACCESS_KEY"]}}
WAYS: dict[str, dict[str, Any]] = {
    "mount": ETC,
    "device": DISK,
    "capability": MODULES,
    "storage": {"checkpoint_storage": ROOT_STORAGE},
    "variable": OF_AGENT,
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))


def submitted(caller: Caller, way: dict[str, Any], **request: Any) -> ApiResponse:
    return caller.ask(
        "POST", "/api/v1/experiments", {"config": config_of(**way), "activate": False, **request}
    )


def refused(response: ApiResponse) -> bool:
    return response.status == 400 and "administrators" in response.error


@ways
def test_only_administrators_submit_configurations_with_host_access(
    admin: Caller, user: Caller, way: dict[str, Any]
) -> None:
    assert refused(submitted(user, way))
    assert submitted(admin, way).status == 200


def test_users_can_request_compute_devices_and_harmless_capabilities(user: Caller) -> None:
    devices = ["/dev/infiniband/uverbs0:/dev/infiniband/uverbs0", "/dev/nvidia0:/dev/nvidia0"]
    own = {"resources": {"devices": devices}, "environment": {"add_capabilities": ["SYS_PTRACE"]}}
    assert submitted(user, own).status == 200
    for name in ("NET_RAW", "cap_net_admin"):
        assert refused(submitted(user, {"environment": {"add_capabilities": [name]}}))
    escaped = {"resources": {"devices": ["/dev/nvidia/../sda:/dev/x"]}}
    assert refused(submitted(user, escaped))


@ways
def test_continuing_does_not_allow_more_host_access(
    admin: Caller, user: Caller, way: dict[str, Any]
) -> None:
    def continued(experiment: int, override: dict[str, Any]) -> ApiResponse:
        body = {"id": experiment, "overrideConfig": json.dumps(override)}
        return user.ask("POST", "/api/v1/experiments/continue", body)

    assert refused(continued(create_ended(user), way))
    # Other users' code would run with the rights of an administrator's experiment.
    response = continued(create_ended(admin, **way), {"entrypoint": "python3 other.py"})
    assert (response.status, "administrator" in response.error) == (403, True)


@ways
def test_templates_do_not_allow_more_host_access(
    admin: Caller, user: Caller, way: dict[str, Any]
) -> None:
    user.post("/api/v1/templates/way", {"name": "way", "config": way})
    assert refused(submitted(user, {}, template="way"))
    assert submitted(admin, {}, template="way").status == 200


def test_users_can_copy_only_non_secret_variables_of_the_agent(api: Api, user: Caller) -> None:
    names = [
        "DATA_ROOT",
        "TOKENIZERS_PARALLELISM",
        "GIT_AUTHOR_NAME",
        "XAUTHORITY",
        "AWS_SECRET_ACCESS_KEY=of the user's own",
    ]
    assert submitted(user, {"environment": {"environment_variables": names}}).status == 200
    pools = [{"pool_name": name} for name in POOLS]
    defaults = {"environment_variables": {"cpu": ["AWS_SECRET_ACCESS_KEY"]}}
    storage = {"type": "shared_fs", "host_path": "/checkpoints"}
    api.ctx.config = load_cluster(
        {
            "task_container_defaults": defaults, "resource_pools": pools,
            "checkpoint_storage": storage,
        }
    )  # fmt: skip
    assert submitted(user, {}).status == 200


def test_workspace_owners_cannot_allow_host_access(admin: Caller, user: Caller) -> None:
    new_body = {"name": "mine", "checkpointStorageConfig": ROOT_STORAGE}
    assert refused(user.ask("POST", "/api/v1/workspaces", new_body))
    workspace = user.post("/api/v1/workspaces", {"name": "mine"})["workspace"]["id"]
    path = f"/api/v1/workspaces/{workspace}"
    assert refused(user.ask("PATCH", path, {"checkpointStorageConfig": ROOT_STORAGE}))
    policies = f"/api/v1/config-policies/workspaces/{workspace}/experiment"
    for way in (ETC, DISK, MODULES):
        body = {"configPolicies": json.dumps({"invariant_config": way})}
        assert refused(user.ask("PUT", policies, body))
    # Settings that an administrator demands apply to the tasks of all users.
    admin.done("PUT", policies, {"configPolicies": json.dumps({"invariant_config": ETC})})
    project = user.post(f"{path}/projects", {"name": "p"})["project"]["id"]
    assert submitted(user, {}, projectId=project).status == 200


def test_rejects_reported_storage_with_host_access(user: Caller) -> None:
    body = {"runId": 1, "checkpointStorage": ROOT_STORAGE}
    assert refused(user.ask("POST", "/api/v1/runs/start", body))


@pytest.mark.parametrize(
    "storage",
    [
        {"type": "shared_fs", "host_path": "/data", "storage_path": "../etc"},
        {"type": "shared_fs", "host_path": "/data", "storage_path": "/etc"},
        {"type": "gcs", "bucket": "b", "prefix": "of/me/../../others"},
    ],
)
def test_rejects_reported_storage_with_paths_that_leave_it(
    user: Caller, storage: dict[str, str]
) -> None:
    response = user.ask("POST", "/api/v1/runs/start", {"runId": 1, "checkpointStorage": storage})
    assert response.status == 400
    assert "checkpointStorage." in response.error


def test_storage_id_is_valid_only_for_its_user(api: Api, admin: Caller, user: Caller) -> None:
    keys = {"type": "s3", "bucket": "b", "access_key": "a", "secret_key": "s"}
    number = admin.post("/api/v1/runs/start", {"runId": 1, "checkpointStorage": keys})["storageId"]

    def reported(caller: Caller, experiment: int, storage_id: int) -> ApiResponse:
        report = {
            "uuid": str(uuid.uuid4()), "taskId": trial_of(user, experiment)["taskId"], "resources": {"a": "1"},
            "metadata": {"steps_completed": 1}, "storageId": storage_id,
        }  # fmt: skip
        return caller.ask("POST", "/api/v1/checkpoints", report)

    response = reported(user, create(user), number)
    assert (response.status, "another user's" in response.error) == (403, True)
    assert reported(user, create(user), 10**6).status == 404
    assert reported(admin, create(admin), number).status == 200
    own = user.post("/api/v1/runs/start", {"runId": 1, "checkpointStorage": keys})["storageId"]
    assert own != number
    assert reported(user, create(user), own).status == 200
