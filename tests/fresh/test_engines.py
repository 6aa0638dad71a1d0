"""The agent with engines other than this machine's Docker, each installed and started on a fresh machine."""

import sys
from pathlib import Path

import pytest

from tests.support.fresh import fresh_machine, requires_root

pytestmark = [requires_root, pytest.mark.slow, pytest.mark.docker]

ENGINES = Path("tests/fresh/engines")
# Differences of engines: addresses of the host, the first process, times of lines, missing paths.
BEHAVIOURS = (
    "tests/agent/test_doctor.py::test_healthy_machine_passes_all_checks",
    "tests/agent/test_host_address.py::test_containers_reach_the_agent_on_every_network",
    "tests/agent/test_agent_docker.py::test_container_receives_preemption_from_the_gateway[bridge]",
    "tests/agent/test_agent_docker.py::test_container_receives_preemption_from_the_gateway[host]",
    "tests/agent/test_agent_docker.py::test_failed_pull_is_reported_with_the_image_name",
    "tests/agent/test_agent_docker.py::test_missing_host_path_fails_the_container",
    "tests/agent/test_runtime_contract.py::test_all_lines_of_a_fast_container_are_read[docker]",
    "tests/agent/test_runtime_contract.py::test_output_continues_after_the_cursor_without_repeating[docker]",
)


@pytest.mark.parametrize("engine", ["podman", "rootless-podman", "rootless-docker", "newer-docker"])
def test_agent_runs_containers_on_engine(engine: str) -> None:
    command = (str(ENGINES / engine), ".venv/bin/python", "-m", "pytest", *BEHAVIOURS)
    options = ("--carry", ".venv", "--python", sys.executable, "--env", "DET_TEST_NO_SKIPS=1")
    result = fresh_machine(*command, options=options)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(BEHAVIOURS)} passed" in result.stdout, result.stdout
