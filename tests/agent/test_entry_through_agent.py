"""The harness's own container entry, started by a real agent on both runtimes, talking through the gateway."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import StartAgent
from tests.support.agents import make_spec
from tests.support.fake_controlplane import FakeControlPlane


def answer_as_a_cluster(method: str, path: str, body: bytes) -> tuple[int, Any]:
    if path.endswith("/context_directory"):
        return 200, {"b64Tgz": ""}
    if path.endswith("/rendezvous"):
        return 200, {"rendezvousInfo": {"addresses": ["127.0.0.1"], "rank": 0, "slots": [0]}}
    return 200, {}


def entry_spec(entrypoint: str) -> dict[str, Any]:
    spec = make_spec(["python3", "-m", "determined.exec.entry"])
    ids = {"task_id": spec["task_id"], "allocation_id": spec["allocation_id"]}
    spec["env"] = {
        "DET_TASK_ID": spec["task_id"],
        "DET_ALLOCATION_ID": spec["allocation_id"],
        "DET_TASK_TYPE": "COMMAND",
        "DET_TASK_ENTRYPOINT": json.dumps(entrypoint),
        "DET_TASK_LOGGING_METADATA": json.dumps(ids),
        "DET_SESSION_TOKEN": spec["session_token"],
    }
    return spec


@pytest.mark.parametrize("runtime", ["process", pytest.param("docker", marks=pytest.mark.docker)])
def test_user_output_and_exit_code_arrive_once(
    plane: FakeControlPlane, start_agent: StartAgent, runtime: str, request: pytest.FixtureRequest
) -> None:
    if runtime == "docker":
        request.getfixturevalue("docker_client")
    plane.answer_to = answer_as_a_cluster
    start_agent(runtime=runtime, **{"agent-id": f"entry-{runtime}"})
    plane.until(lambda: plane.polls)
    spec = entry_spec("echo hello from user; echo oops >&2; exit 42")
    plane.want(spec)
    report = plane.until_state(spec["container_id"], "terminated")
    assert (report["exit_code"], report["failure"]) == (42, "container_failed")
    plane.until(lambda: len(plane.texts("task")) >= 2)
    lines = [line for line in plane.logs() if line.get("source") == "task"]
    output = sorted((line["log"].strip(), line["stdtype"]) for line in lines)
    assert output == [("hello from user", "stdout"), ("oops", "stderr")]
    assert {line["container_id"] for line in lines} == {spec["container_id"]}


@pytest.mark.parametrize("runtime", ["process", pytest.param("docker", marks=pytest.mark.docker)])
@pytest.mark.parametrize("command", ["det", "PYTHONPATH=/mine det", "python3 -m determined.cli"])
def test_det_command_works_in_every_task(
    plane: FakeControlPlane,
    start_agent: StartAgent,
    runtime: str,
    command: str,
    request: pytest.FixtureRequest,
) -> None:
    if runtime == "docker":
        request.getfixturevalue("docker_client")

    def answer(method: str, path: str, body: bytes) -> tuple[int, Any]:
        if path.startswith("/api/v1/workspaces"):
            place = {"id": 7, "name": "vision", "numProjects": 3, "numExperiments": 5}
            return 200, {"workspaces": [place], "pagination": {"total": 1}}
        return answer_as_a_cluster(method, path, body)

    plane.answer_to = answer
    start_agent(runtime=runtime, **{"agent-id": f"entry-{runtime}"})
    spec = entry_spec(f"{command} workspace list --csv")
    plane.want(spec)
    report = plane.until_state(spec["container_id"], "terminated")
    lines = [line["log"] for line in plane.logs() if line.get("source") == "task"]
    assert report["exit_code"] == 0, lines
    assert any(line.startswith("7,vision,") for line in lines), lines


@pytest.mark.parametrize("runtime", ["process", pytest.param("docker", marks=pytest.mark.docker)])
def test_preparing_container_waits_for_the_restarted_agent(
    plane: FakeControlPlane, start_agent: StartAgent, runtime: str, request: pytest.FixtureRequest
) -> None:
    if runtime == "docker":
        request.getfixturevalue("docker_client")
    requested, killed = threading.Event(), threading.Event()

    def answer(method: str, path: str, body: bytes) -> tuple[int, Any]:
        if "/context_directory" in path and not killed.is_set():
            requested.set()
            return 503, {}  # the gateway holds the request of the container
        return answer_as_a_cluster(method, path, body)

    plane.answer_to = answer
    agent = start_agent(runtime=runtime, **{"agent-id": f"entry-{runtime}"})
    spec = entry_spec("exit 42")
    plane.want(spec)
    assert requested.wait(60)
    agent.kill()
    killed.set()
    agent.restart()
    report = plane.until_state(spec["container_id"], "terminated")
    assert (report["exit_code"], report["failure"]) == (42, "container_failed")


def test_output_written_without_an_agent_arrives_once(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    plane.answer_to = answer_as_a_cluster
    agent = start_agent()
    go, wrote = tmp_path / "go", tmp_path / "wrote"
    writes = f"seq -f 'line %g' 2 5000; touch {wrote}"
    spec = entry_spec(f"echo line 1; until test -e {go}; do :; done; {writes}; exit 3")
    plane.run(spec)
    plane.until(lambda: plane.texts("task"))
    agent.kill()
    go.touch()
    plane.until(wrote.exists)
    agent.restart()
    assert plane.until_state(spec["container_id"], "terminated")["exit_code"] == 3
    plane.until(lambda: len(plane.texts("task")) >= 5000)
    assert [text.strip() for text in plane.texts("task")] == [f"line {n}" for n in range(1, 5001)]
