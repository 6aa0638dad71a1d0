"""If an image lacks a program, the task writes a sentence for the agent, which reports it as the reason."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from det_agent import exit_reason
from docker.errors import ImageNotFound

from tests.agent.conftest import StartAgent
from tests.support.agents import make_spec
from tests.support.fake_controlplane import FakeControlPlane

EMPTY = "det-test-empty:latest"
RUNTIMES = ["process", pytest.param("docker", marks=pytest.mark.docker)]


def answer_as_a_cluster(method: str, path: str, body: bytes) -> tuple[int, Any]:
    return 200, {"b64Tgz": ""} if path.endswith("/context_directory") else {}


@pytest.fixture
def agent_of(
    plane: FakeControlPlane, start_agent: StartAgent, request: pytest.FixtureRequest
) -> Any:
    def start(runtime: str) -> None:
        if runtime == "docker":
            request.getfixturevalue("docker_client")
        plane.answer_to = answer_as_a_cluster
        start_agent(runtime=runtime, **{"agent-id": f"reason-{runtime}"})

    return start


@pytest.fixture
def empty_image(docker_client: Any) -> str:
    try:
        docker_client.images.get(EMPTY)
    except ImageNotFound:
        buffer = io.BytesIO()
        tarfile.open(fileobj=buffer, mode="w").close()
        docker_client.api.import_image_from_data(
            buffer.getvalue(), repository="det-test-empty", tag="latest"
        )
    return EMPTY


def ended(plane: FakeControlPlane, spec: dict[str, Any]) -> dict[str, Any]:
    plane.want(spec)
    return plane.until_state(spec["container_id"], "terminated")


def notebook_spec(image: str) -> dict[str, Any]:
    entry = ["python3", "-m", "determined.exec.entry", "--"]
    spec = make_spec([*entry, "python3", "-m", "determined.exec.notebook"], image=image)
    spec["env"] = {
        "DET_TASK_ID": spec["task_id"],
        "DET_ALLOCATION_ID": spec["allocation_id"],
        "DET_TASK_TYPE": "NOTEBOOK",
        "DET_SESSION_TOKEN": spec["session_token"],
        "DET_INSTALL_MISSING": "0",
    }
    return spec


@pytest.mark.docker
def test_notebook_without_jupyterlab_reports_how_to_install_it(
    plane: FakeControlPlane, agent_of: Any
) -> None:
    agent_of("docker")
    report = ended(plane, notebook_spec("det-test:latest"))
    sentence = (
        "JupyterLab is not installed in image det-test:latest: choose an image that has it (environment.image),"
        " install it in yours (pip install jupyterlab), or let a startup-hook.sh in the context do so"
    )
    assert (report["exit_code"], report["message"]) == (80, sentence)
    plane.until(lambda: f"{sentence}\n" in plane.texts("task") or sentence in plane.texts("task"))


@pytest.mark.docker
def test_image_without_python_is_reported(
    plane: FakeControlPlane, agent_of: Any, empty_image: str
) -> None:
    agent_of("docker")
    report = ended(plane, notebook_spec(empty_image))
    assert report["failure"] == "container_failed"
    assert report["message"] == exit_reason.no_python(empty_image)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_missing_command_is_not_reported_as_missing_python(
    plane: FakeControlPlane, agent_of: Any, runtime: str
) -> None:
    agent_of(runtime)
    spec = make_spec(["bash", "-c", "mkdir -p $DET_RUN_DIR/info; exit 127"])
    assert ended(plane, spec)["message"] == "container failed with non-zero exit code: 127"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_failed_task_can_write_its_own_reason(
    plane: FakeControlPlane, agent_of: Any, runtime: str
) -> None:
    agent_of(runtime)
    report = ended(plane, make_spec("printf 'no\\n\\0data' > $DET_RUN_DIR/exit-reason; exit 3"))
    assert (report["exit_code"], report["message"]) == (3, "no data")


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("trick", ["ln -s /etc/passwd", "mkfifo", "mkdir"])
def test_only_regular_files_are_read(
    plane: FakeControlPlane, agent_of: Any, runtime: str, trick: str
) -> None:
    agent_of(runtime)
    report = ended(plane, make_spec(f"{trick} $DET_RUN_DIR/exit-reason; exit 3"))
    assert report["message"] == "container failed with non-zero exit code: 3"


def test_long_reasons_are_truncated(tmp_path: Path) -> None:
    path = tmp_path / "exit-reason"
    path.write_text("é" * 5000)
    assert exit_reason.of_file(path) == "é" * 1000
