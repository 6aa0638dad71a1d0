"""The storages that a TensorBoard can read: its program belongs to its user."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.api import Api, ApiResponse, Caller, create
from tests.support.house import House

KEYS = {"type": "s3", "bucket": "b", "access_key": "k", "secret_key": "s"}
SHARED = {"type": "shared_fs", "host_path": "/data/red"}


@pytest.fixture
def api(api: Api) -> Api:
    api.ctx.config = replace(api.ctx.config, allowed_host_paths=("/open",))
    return api


def opened(caller: Caller, house: House, experiment: int) -> ApiResponse:
    """Launch a TensorBoard with a program of its user in the workspace where that user is an editor."""
    config = {"entrypoint": ["sh", "-c", "cat /run/determined/tensorboard.json"]}
    body = {"config": config, "experimentIds": [experiment], "workspaceId": house.blue}
    return caller.ask("POST", "/api/v1/tensorboards", body)


def editor_of_blue(house: House, role_in_red: str) -> Caller:
    caller = house.person("ada", role_in_red, house.red)
    house.assign("Editor", house.blue, user=int(caller.get("/api/v1/me")["user"]["id"]))
    return caller


def stored(house: House, storage: dict[str, Any]) -> int:
    """Make an experiment over the storage of its workspace."""
    path = f"/api/v1/workspaces/{house.red}"
    house.admin.done("PATCH", path, {"checkpointStorageConfig": storage})
    return house.experiment(house.admin, house.red_project)


@pytest.mark.parametrize(("role", "status"), [("Viewer", 403), ("Editor", 200)])
def test_tensorboard_does_not_use_credentials_of_another_workspace(
    house: House, role: str, status: int
) -> None:
    response = opened(editor_of_blue(house, role), house, stored(house, KEYS))
    assert response.status == status
    assert status == 200 or "has credentials that experiments of workspace" in response.error


@pytest.mark.parametrize(("role", "status"), [("Viewer", 403), ("Editor", 200)])
def test_tensorboard_does_not_mount_directories_of_another_workspace(
    house: House, role: str, status: int
) -> None:
    response = opened(editor_of_blue(house, role), house, stored(house, SHARED))
    assert response.status == status
    assert status == 200 or "lies in a directory of the machine" in response.error


def test_viewer_can_open_tensorboard_on_allowed_directories(house: House) -> None:
    viewer = editor_of_blue(house, "Viewer")
    assert opened(viewer, house, stored(house, {**SHARED, "host_path": "/open/a"})).status == 200


@pytest.mark.parametrize(
    ("inside", "mounted", "status"), [("/data/a", "/data", 403), ("/database", "/data", 200)]
)
def test_tensorboard_does_not_mount_directories_of_administrators(
    house: House, inside: str, mounted: str, status: int
) -> None:
    experiment = create(
        house.admin,
        workspace="red",
        project="work",
        checkpoint_storage={"type": "directory", "container_path": inside},
        bind_mounts=[{"host_path": "/etc/keys", "container_path": mounted}],
    )
    response = opened(editor_of_blue(house, "Editor"), house, experiment)
    assert response.status == status
    assert status == 200 or "that only an administrator may mount" in response.error
    assert opened(house.admin, house, experiment).status == 200
