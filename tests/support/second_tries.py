"""In continuous integration, run a few failed tests again, alone and in a new process.

A plugin of pytest. The run still prints each failure, and at its end the tests that passed the second time.
"""

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.support.skips import forbidden

# Failures in more files have a common cause and are not accidental.
MOST_FILES = 3
# Set in the second run, which is not repeated.
VARIABLE = "DET_TEST_SECOND_TRY"
_LONGEST_S = 600


class SecondTriesPlugin:
    """Collect failures in the process that receives results: the controller, or the only process."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.broken = False
        self.passed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.broken = self.broken or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Try again before the plugins that may refuse a run which passed."""
        if exitstatus != pytest.ExitCode.TESTS_FAILED or self.broken or not self.failed:
            return
        if len({name.partition("::")[0] for name in self.failed}) > MOST_FILES:
            return
        command = [sys.executable, "-m", "pytest", "-n", "0", *self.failed]
        try:
            result = subprocess.run(
                command,
                cwd=session.config.rootpath,
                env={**os.environ, VARIABLE: "1"},
                timeout=_LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return
        if result.returncode == pytest.ExitCode.OK:
            self.passed = True
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.passed:
            return
        terminalreporter.section("UNSTEADY: tests that failed and then passed alone")
        for name in self.failed:
            terminalreporter.write_line(name, yellow=True)
            if os.environ.get("GITHUB_ACTIONS") == "true":
                print(f"::warning::unsteady test: {name}")


def pytest_configure(config: pytest.Config) -> None:
    if (
        forbidden(os.environ)
        and VARIABLE not in os.environ
        and not hasattr(config, "workerinput")
        and hasattr(config.option, "numprocesses")
    ):
        config.pluginmanager.register(SecondTriesPlugin(), "det-second-tries")
