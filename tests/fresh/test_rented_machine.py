"""User data on an empty machine: Docker from Debian, the agent from its cluster, libraries from the index."""

import sys

import pytest

from tests.support import skips
from tests.support.fresh import fresh_machine, requires_root

pytestmark = [requires_root, pytest.mark.slow]
UNREACHABLE = ("Unable to fetch", "Temporary failure resolving", "Unable to locate package")


def test_empty_machine_becomes_an_agent_and_trains() -> None:
    command = (".venv/bin/python", "-m", "tests.fresh.rented_machine", "/tmp/rented")
    options = ("--carry", ".venv", "--python", sys.executable, "--without-docker")
    result = fresh_machine(*command, options=options)
    output = result.stdout + result.stderr
    if any(words in output for words in UNREACHABLE):
        skips.skip(f"{skips.PACKAGES} (docker.io)", "make fresh, where apt-get reaches Debian")
    assert result.returncode == 0, output
    for step in ("installing docker", "installing the agent", "starting the agent", "done"):
        assert f"determined-boot: {step}\n" in output, output
    assert "trained on rented" in output
    assert "the trial on the rented machine: COMPLETED" in output
