"""A real agent with real Docker containers against a control plane that can fail."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError

from tests.agent.conftest import StartAgent
from tests.support.agents import AgentProcess, make_spec
from tests.support.fake_controlplane import FakeControlPlane

pytestmark = pytest.mark.docker


@pytest.fixture
def agent(
    docker_client: Any, plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> Iterator[Any]:
    name = f"agent-{tmp_path.name}"
    yield start_agent(**{"runtime": "docker", "agent-id": name})
    for container in docker_client.containers.list(
        all=True, sparse=True, filters={"label": f"ai.determined.container.agent_id={name}"}
    ):
        with contextlib.suppress(APIError):
            # The agent may be removing it at this moment.
            container.remove(force=True)


def test_container_runs_and_is_removed_after_its_exit_is_acknowledged(
    agent: AgentProcess, plane: FakeControlPlane, docker_client: Any
) -> None:
    spec = make_spec("echo from inside; exit 3")
    plane.want(spec)
    report = plane.until_state(spec["container_id"], "terminated")
    assert (report["exit_code"], report["failure"]) == (3, "container_failed")
    plane.until(lambda: "from inside" in plane.texts("task"))
    label = {"label": f"ai.determined.container.id={spec['container_id']}"}
    plane.until(lambda: not docker_client.containers.list(all=True, sparse=True, filters=label))


def test_failed_pull_is_reported_with_the_image_name(
    agent: AgentProcess, plane: FakeControlPlane
) -> None:
    spec = make_spec("true", image="127.0.0.1:9/nothing/here:1")
    plane.want(spec)
    report = plane.until_state(spec["container_id"], "terminated")
    assert report["failure"] == "image_pull"
    assert "cannot pull image 127.0.0.1:9/nothing/here:1" in report["message"]
    plane.until(lambda: report["message"] in plane.texts("agent"))
    assert "exit_code" not in report


def test_container_ends_while_its_agent_is_dead_and_reports_its_exit_code(
    agent: AgentProcess, plane: FakeControlPlane, docker_client: Any, tmp_path: Path
) -> None:
    shared = {"host_path": str(tmp_path), "container_path": "/shared", "read_only": False}
    marker = "/shared/done"
    spec = make_spec(
        f"echo before; until test -e {marker}; do sleep 0.05; done; echo after; exit 9",
        mounts=[shared],
    )
    running = plane.run(spec)
    plane.until(lambda: "before" in plane.texts("task"))
    plane.until(lambda: agent.has_noted_output_of(spec, "stdout"))
    agent.kill()
    (tmp_path / "done").touch()
    assert docker_client.containers.get(running["runtime_id"]).wait()["StatusCode"] == 9
    agent.restart()
    report = plane.until_state(spec["container_id"], "terminated")
    assert (report["exit_code"], report["runtime_id"]) == (9, running["runtime_id"])
    plane.until(lambda: "after" in plane.texts("task"))
    assert plane.texts("task").count("before") == 1


def test_killing_a_container_by_hand_is_a_container_failure(
    agent: AgentProcess, plane: FakeControlPlane, docker_client: Any
) -> None:
    spec = make_spec("sleep 600")
    running = plane.run(spec)
    docker_client.containers.get(running["runtime_id"]).kill()
    report = plane.until_state(spec["container_id"], "terminated")
    assert (report["exit_code"], report["failure"]) == (137, "container_failed")


def test_removing_a_container_by_hand_is_a_failure(
    agent: AgentProcess, plane: FakeControlPlane, docker_client: Any
) -> None:
    spec = make_spec("sleep 600")
    running = plane.run(spec)
    docker_client.containers.get(running["runtime_id"]).remove(force=True)
    report = plane.until_state(spec["container_id"], "terminated")
    assert report["failure"] in ("agent_error", "container_failed")


def test_kill_ends_a_container_and_a_new_epoch_replaces_it(
    agent: AgentProcess, plane: FakeControlPlane
) -> None:
    spec = make_spec("sleep 600")
    plane.run(spec)
    plane.want(spec | {"epoch": 2})
    plane.until(lambda: "running" in plane.history.get(f"{spec['container_id']}@2", []))
    assert plane.history[f"{spec['container_id']}@1"][-1] == "terminated"
    plane.kill(spec["container_id"])
    assert plane.until_state(spec["container_id"], "terminated")["failure"] == "aborted"


@pytest.mark.parametrize("network", ["bridge", "host"])
def test_container_receives_preemption_from_the_gateway(
    agent: AgentProcess, plane: FakeControlPlane, network: str
) -> None:
    spec = make_spec(["python3", "-c", ASKS_FOR_PREEMPTION], network=network)
    running = plane.run(spec)
    assert (running["host_ports"]["1734"] == 1734) == (network == "host")
    plane.until(lambda: "asking" in plane.texts("task"))
    plane.preempt(spec["container_id"])
    assert plane.until_state(spec["container_id"], "terminated")["exit_code"] == 0
    plane.until(lambda: '{"preempt": true}' in plane.texts("task"))


ASKS_FOR_PREEMPTION = """
import os, urllib.request
url = f"{os.environ['DET_MASTER']}/api/v1/allocations/{os.environ['DET_RESOURCES_ID']}.1/signals/preemption"
token = "Bearer " + os.environ["DET_SESSION_TOKEN"]
print("asking", flush=True)
request = urllib.request.Request(url + "?timeoutSeconds=60", headers={"Authorization": token})
print(urllib.request.urlopen(request).read().decode(), flush=True)
"""


def test_missing_host_path_fails_the_container(
    agent: AgentProcess, plane: FakeControlPlane
) -> None:
    mount = {"host_path": "/no/such/place", "container_path": "/data", "read_only": True}
    spec = make_spec("true", mounts=[mount])
    plane.want(spec)
    report = plane.until_state(spec["container_id"], "terminated")
    assert report["failure"] == "container_failed"
    assert "/no/such/place" in report["message"]


LISTENS = """
import socket
try:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    print("hears others", flush=True)
except PermissionError:
    print("hears nothing", flush=True)
"""


@pytest.mark.parametrize("network", ["bridge", "host"])
def test_task_cannot_capture_packets_of_other_tasks(
    agent: AgentProcess, plane: FakeControlPlane, network: str
) -> None:
    """Their tokens pass there, not encrypted."""
    plane.want(make_spec(["python3", "-c", LISTENS], network=network))
    plane.until(lambda: any(text.startswith("hears") for text in plane.texts("task")))
    assert "hears nothing" in plane.texts("task")


def test_specification_settings_are_passed_to_the_engine(
    agent: AgentProcess, plane: FakeControlPlane, docker_client: Any
) -> None:
    spec = make_spec(
        "sleep 600",
        shm_size_bytes=128 * 1024 * 1024,
        cap_add=["SYS_PTRACE"],
        cap_drop=["NET_RAW"],
        devices=[{"host_path": "/dev/null", "container_path": "/dev/mine", "mode": "r"}],
    )
    running = plane.run(spec)
    settings = docker_client.containers.get(running["runtime_id"]).attrs["HostConfig"]
    assert settings["ShmSize"] == 128 * 1024 * 1024
    assert settings["CapAdd"] == ["SYS_PTRACE"]
    # Podman also lists mounts that it adds to every container.
    assert "NET_RAW" in settings["CapDrop"]
    assert settings["Devices"][0]["PathInContainer"] == "/dev/mine"
