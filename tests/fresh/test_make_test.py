"""`make test` on an empty machine, with a part of the tests that needs the same programs as all tests."""

import re
import sys

import pytest

from tests.support.fresh import fresh_machine, requires_root

pytestmark = [requires_root, pytest.mark.slow]

# A database, processes, an engine with its image.
PART = " ".join((
    "tests/db/test_connections.py", "tests/agent/test_task_python.py", "tests/agent/test_host_address.py",
    "tests/test_suite_plugins.py",
))  # fmt: skip


@pytest.mark.docker
def test_make_test_passes_twice_in_a_row_without_skips() -> None:
    """The second run reuses the environments, the image and the running engine of the first one."""
    script = (
        f'export DET_TEST_NO_SKIPS=1; for run in 1 2; do make test TESTS="{PART}" || exit; done'
    )
    result = fresh_machine("sh", "-c", script)
    assert result.returncode == 0, result.stdout + result.stderr
    first, second = re.findall(r"^(\d+) passed in", result.stdout, re.MULTILINE)
    assert int(first) == int(second) > 50


def test_unprivileged_user_without_docker_gets_a_table_of_skipped_tests() -> None:
    options = ("--not-root", "--without-docker", "--carry", ".venv", "--python", sys.executable)
    # In continuous integration, skipped tests fail. This is the run of a user.
    command = ("env", "-u", "CI", "-u", "DET_TEST_NO_SKIPS", "make", "test", f"TESTS={PART}")
    result = fresh_machine(*command, options=options)
    assert result.returncode == 0, result.stdout + result.stderr
    table = result.stdout.partition("tests that did not run")[2]
    assert re.search(r"\d+ +no Docker engine answers this user.* +start Docker", table)
    assert re.search(r"\d+ +only root .* +make test as root", table)
    assert "not told" not in table
