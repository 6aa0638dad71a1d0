"""The agent with engines other than this machine's Docker, each installed and started on a fresh machine."""

import sys
from pathlib import Path

import pytest

from tests.support import skips
from tests.support.fresh import fresh_machine, requires_root

pytestmark = [requires_root, pytest.mark.slow, pytest.mark.docker]

ENGINES = Path("tests/fresh/engines")
NO_PACKAGES = 77
# Differences of engines: addresses of the host, the first process, times of lines, missing paths.
BEHAVIOURS = (
    "tests/agent/test_doctor.py::test_a_healthy_machine",
    "tests/agent/test_host_address.py::test_containers_reach_the_address_that_was_found_on_every_kind_of_network",
    "tests/agent/test_agent_docker.py::test_a_container_reaches_the_gateway_and_learns_of_its_preemption[bridge]",
    "tests/agent/test_agent_docker.py::test_a_container_reaches_the_gateway_and_learns_of_its_preemption[host]",
    "tests/agent/test_agent_docker.py::test_an_image_that_cannot_be_pulled_is_told_in_a_sentence",
    "tests/agent/test_agent_docker.py::test_a_missing_host_path_is_told_and_counts_as_the_tasks_failure",
    "tests/agent/test_runtime_contract.py::test_no_line_of_a_fast_container_is_lost[docker]",
    "tests/agent/test_runtime_contract.py::test_output_goes_on_after_the_cursor_without_repeating[docker]",
)


@pytest.mark.parametrize("engine", ["podman", "rootless-podman", "rootless-docker", "newer-docker"])
def test_the_agent_runs_containers_on(engine: str) -> None:
    command = (str(ENGINES / engine), ".venv/bin/python", "-m", "pytest", *BEHAVIOURS)
    options = ("--carry", ".venv", "--python", sys.executable, "--env", "DET_TEST_NO_SKIPS=1")
    done = fresh_machine(*command, options=options)
    if done.returncode == NO_PACKAGES:
        skips.skip(f"{skips.PACKAGES} ({engine})", "make fresh, where apt-get reaches Debian")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(BEHAVIOURS)} passed" in done.stdout, done.stdout
