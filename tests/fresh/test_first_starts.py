"""The README's commands, and an agent with its engine, on an empty machine."""

import sys
from collections.abc import Sequence

import pytest

from tests.support import skips
from tests.support.fresh import fresh_machine, requires_root
from tests.support.pythons import interpreter

pytestmark = [requires_root, pytest.mark.slow]

REACHES_GATEWAY = (
    "tests/agent/test_agent_docker.py::test_container_receives_preemption_from_the_gateway"
)


@pytest.mark.docker
def test_containers_reach_the_gateway_on_a_newly_started_engine() -> None:
    """In its bridge's first life Docker 20.10 reports a subnet and no gateway."""
    script = f"test ! -e /sys/class/net/docker0 && .venv/bin/python -m pytest {REACHES_GATEWAY}"
    options = ("--carry", ".venv", "--python", sys.executable)
    result = fresh_machine("sh", "-c", script, options=options)
    assert result.returncode == 0, result.stdout
    assert "2 passed" in result.stdout, result.stdout


@pytest.mark.parametrize(
    ("version", "options"),
    [
        pytest.param("3.10", (), id="python3.10"),
        pytest.param("3.13", (), id="python3.13"),
        pytest.param("3", ("--not-root",), id="not-root"),
        pytest.param("3", ("--without-docker",), id="without-docker"),
    ],
)
def test_quickstart_works_twice_in_a_row(version: str, options: Sequence[str]) -> None:
    python = interpreter(version)
    if python is None:
        skips.skip(f"{skips.INTERPRETER}: Python {version}", f"uv python install {version}")
    script = "make quickstart && make quickstart"
    result = fresh_machine("sh", "-c", script, options=("--python", python, *options))
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("the cluster and its files are deleted") == 2
