"""The harness's own container entry, started by a real agent on both runtimes, talking through the gateway."""

import json
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
def test_user_output_comes_through_the_gateway_once_and_the_exit_code_is_the_users(
    plane: FakeControlPlane, start_agent: StartAgent, runtime: str, request: pytest.FixtureRequest
) -> None:
    if runtime == "docker":
        request.getfixturevalue("docker_client")
    plane.answer_to = answer_as_a_cluster
    start_agent(runtime=runtime, **{"agent-id": f"entry-{runtime}"})
    plane.until(lambda: plane.polls)
    spec = entry_spec("echo hello from user; echo oops >&2; exit 42")
    plane.want(spec)
    ended = plane.until_state(spec["container_id"], "terminated")
    assert (ended["exit_code"], ended["failure"]) == (42, "container_failed")
    plane.until(lambda: len(plane.texts("task")) >= 2)
    lines = [line for line in plane.logs() if line.get("source") == "task"]
    said = sorted((line["log"].strip(), line["stdtype"]) for line in lines)
    assert said == [("hello from user", "stdout"), ("oops", "stderr")]
    assert {line["container_id"] for line in lines} == {spec["container_id"]}
