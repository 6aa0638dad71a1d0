"""With `--costs`, tell at the end which folders and files of tests took most processor time.

A plugin of pytest. Programs that a test waits for are counted, and containers are not.
"""

import os
from typing import Any

import pytest

_SHOWN = 40
_NAME = "cpu_s"


def _spent() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Meter:
    """Runs where tests do: tells each phase of a test what was spent since the one before."""

    def __init__(self) -> None:
        self._before = _spent()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        made = yield
        now = _spent()
        report: pytest.TestReport = made.get_result()
        report.user_properties = [*report.user_properties, (_NAME, now - self._before)]
        self._before = now


class Costs:
    """Runs where results arrive: adds up by file."""

    def __init__(self) -> None:
        self.by_file: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        for name, value in report.user_properties:
            if name == _NAME and isinstance(value, float):
                self.by_file[file] = self.by_file.get(file, 0.0) + value

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        total = sum(self.by_file.values())
        terminalreporter.section(f"processor time by file: {total:.0f} s in all")
        by_folder: dict[str, float] = {}
        for name, spent in self.by_file.items():
            folder = f"{name.rpartition('/')[0] or '.'}/"
            by_folder[folder] = by_folder.get(folder, 0.0) + spent
        for costs in (by_folder, self.by_file):
            dearest = sorted(costs.items(), key=lambda entry: -entry[1])
            for name, spent in dearest[:_SHOWN]:
                terminalreporter.write_line(f"{spent:7.1f} s  {name}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--costs", action="store_true", help="tell which files take most processor time"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--costs"):
        config.pluginmanager.register(Meter())
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Costs())
