"""With `--costs`, print the test files with the most processor time, and the load of the processors.

A plugin of pytest. Programs that a test waits for are counted; containers and processes of local clusters are not.
Processes that end with the last test of a worker, such as PostgreSQL, served all its files and are listed
separately.
"""

import os
from pathlib import Path
from typing import Any

import pytest

_SHOWN = 40
_NAME = "cpu_s"
_OF_ALL = "cpu_s_of_all"
SERVERS = "(servers of all files)"


def _spent() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _machine() -> tuple[float, float]:
    """Return the busy and idle time of the machine's processors since its start, on Linux."""
    try:
        spent_ticks = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return 0.0, 0.0
    each = [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in spent_ticks]
    idle = each[3] + each[4]
    return sum(each) - idle, idle


class Meter:
    """Run in the processes of tests, and report the cost of each phase of a test."""

    def __init__(self) -> None:
        self._before = _spent()
        self._is_last = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, nextitem: pytest.Item | None) -> None:
        self._is_last = nextitem is None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        outcome = yield
        now = _spent()
        report: pytest.TestReport = outcome.get_result()
        name = _OF_ALL if self._is_last and report.when == "teardown" else _NAME
        report.user_properties = [*report.user_properties, (name, now - self._before)]
        self._before = now


class Costs:
    """Runs where results arrive: adds up by file."""

    def __init__(self) -> None:
        self.by_file: dict[str, float] = {}
        self._begun = _machine()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        places = {_NAME: report.nodeid.partition("::")[0], _OF_ALL: SERVERS}
        for name, value in report.user_properties:
            if name in places and isinstance(value, float):
                self.by_file[places[name]] = self.by_file.get(places[name], 0.0) + value

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        total = sum(self.by_file.values())
        terminalreporter.section(f"processor time by file: {total:.0f} s in all")
        busy, idle = (now - then for now, then in zip(_machine(), self._begun, strict=True))
        terminalreporter.write_line(
            f"all processors of the machine: busy for {busy:.0f} s, idle for {idle:.0f} s"
        )
        by_folder: dict[str, float] = {}
        for name, seconds in self.by_file.items():
            folder = name if name == SERVERS else f"{name.rpartition('/')[0] or '.'}/"
            by_folder[folder] = by_folder.get(folder, 0.0) + seconds
        for costs in (by_folder, self.by_file):
            dearest = sorted(costs.items(), key=lambda entry: -entry[1])
            for name, seconds in dearest[:_SHOWN]:
                terminalreporter.write_line(f"{seconds:7.1f} s  {name}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--costs", action="store_true", help="tell which files take most processor time"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--costs"):
        config.pluginmanager.register(Meter())
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Costs())
