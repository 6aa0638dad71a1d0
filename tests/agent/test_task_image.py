"""Notebooks, shells and TensorBoards start in the image that images/Dockerfile builds."""

import base64
import json
from typing import Any

import pytest

from tests.agent.conftest import StartAgent
from tests.support.agents import make_spec
from tests.support.fake_controlplane import FakeControlPlane
from tests.support.task_image import base_image, task_image

EVENTS = "/events/trial-1/events.out.tfevents.1.host"
TENSORBOARD = {
    "sources": [
        {
            "name": "exp-1",
            "path": "trial-1",
            "storage": {"type": "directory", "container_path": "/events"},
        }
    ]
}


def answer_as_a_cluster(method: str, path: str, body: bytes) -> tuple[int, Any]:
    return 200, {"b64Tgz": ""} if path.endswith("/context_directory") else {}


def interactive_spec(image: str, module: str, **env: str) -> dict[str, Any]:
    entry = [
        "python3",
        "-m",
        "determined.exec.entry",
        "--",
        "python3",
        "-m",
        f"determined.exec.{module}",
    ]
    spec = make_spec(entry, image=image)
    spec["env"] = {
        "DET_TASK_ID": spec["task_id"],
        "DET_ALLOCATION_ID": spec["allocation_id"],
        "DET_TASK_TYPE": module.upper(),
        "DET_SESSION_TOKEN": spec["session_token"],
        **env,
    }
    return spec


def file(path: str, content: bytes) -> dict[str, Any]:
    return {"path": path, "mode": 0o600, "content_b64": base64.b64encode(content).decode()}


PROGRAMS = pytest.mark.parametrize(
    ("module", "env", "files"),
    [
        ("notebook", {"NOTEBOOK_PORT": "2900", "DET_NOTEBOOK_TOKEN": "secret"}, []),
        ("shell", {"SHELL_PORT": "3200"}, [file("/run/determined/ssh/authorized_keys", b"")]),
        (
            "tensorboard",
            {"TENSORBOARD_PORT": "2600"},
            [
                file("/run/determined/tensorboard.json", json.dumps(TENSORBOARD).encode()),
                file(EVENTS, b""),
            ],
        ),
    ],
)


@pytest.mark.docker
@pytest.mark.heavy("it builds a Debian base and installs JupyterLab")
@PROGRAMS
def test_installed_program_of_the_image_serves(
    plane: FakeControlPlane,
    start_agent: StartAgent,
    docker_client: Any,
    module: str,
    env: dict[str, str],
    files: list[dict[str, Any]],
) -> None:
    plane.answer_to = answer_as_a_cluster
    spec = interactive_spec(task_image(docker_client), module, **env)
    spec["files"] = files
    start_agent(runtime="docker")
    plane.want(spec)
    ready = f"/api/v1/allocations/{spec['allocation_id']}/ready"
    plane.until(lambda: any(path == ready for _, path, _, _ in plane.forwarded), timeout_s=180)
    plane.kill(spec["container_id"])
    plane.until_state(spec["container_id"], "terminated")


@pytest.mark.docker
@pytest.mark.heavy("it builds a Debian base and installs each program from the internet")
@PROGRAMS
def test_missing_program_is_installed_and_serves(
    plane: FakeControlPlane,
    start_agent: StartAgent,
    docker_client: Any,
    module: str,
    env: dict[str, str],
    files: list[dict[str, Any]],
) -> None:
    """The containers are in the machine's network, through which the package index is reached."""
    plane.answer_to = answer_as_a_cluster
    spec = interactive_spec(base_image(docker_client), module, **env)
    spec |= {"files": files, "network": "host"}
    start_agent(runtime="docker")
    plane.want(spec)
    ready = f"/api/v1/allocations/{spec['allocation_id']}/ready"
    plane.until(lambda: any(path == ready for _, path, _, _ in plane.forwarded), timeout_s=900)
    log = plane.texts("task")
    assert any("is not installed in image det-test-debian:latest: installing it" in x for x in log)
    plane.kill(spec["container_id"])
    plane.until_state(spec["container_id"], "terminated")
