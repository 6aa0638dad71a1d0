"""Print the tests that did not run, the reasons, and the commands that run them. In CI, fail such a run.

A plugin of pytest. With CI=true or DET_TEST_NO_SKIPS=1, a skip fails the run, except for hardware that ordinary
machines lack.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pytest

# The text between the reason of a skip and the command that runs the test.
_REMEDY = "; to run it: "
# Hardware and rights that continuous integration may lack.
GPU = "no GPU"
CLOUD = "no account at a cloud"
INTERPRETER = "no interpreter can be downloaded here"
PACKAGES = "no package can be downloaded here"
TERRAFORM = "Terraform or a provider of it is not here"
_EXCUSED = (GPU, CLOUD, INTERPRETER, PACKAGES, TERRAFORM)

# The fix for tests of actions that only root may do.
AS_ROOT = "make test as root"

HEAVY_VARIABLE = "DET_TEST_FRAMEWORKS"
HEAVY_REMEDY = "make test-all"


def because(reason: str, remedy: str) -> str:
    """Return the text of a skip for pytest, from which the table is made."""
    return f"{reason}{_REMEDY}{remedy}"


def skip(reason: str, remedy: str) -> NoReturn:
    pytest.skip(because(reason, remedy))


@dataclass
class NotRun:
    """Counts tests that did not run, by reason and remedy."""

    counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, text: str, count: int = 1) -> None:
        reason, _, remedy = text.removeprefix("Skipped: ").partition(_REMEDY)
        key = (reason, remedy)
        self.counts[key] = self.counts.get(key, 0) + count

    def table(self) -> list[str]:
        """Return lines of reason, count and remedy; the most frequent reason first."""
        rows = [("tests", "did not run because", "what runs them")]
        rows += [
            (str(count), reason, remedy or "not told")
            for (reason, remedy), count in sorted(
                self.counts.items(), key=lambda item: (-item[1], item[0])
            )
        ]
        width = max(len(reason) for _, reason, _ in rows)
        return [f"{count:>5}  {reason:<{width}}  {remedy}" for count, reason, remedy in rows]

    def inexcusable(self) -> list[str]:
        return sorted(reason for reason, _ in self.counts if not reason.startswith(_EXCUSED))


def forbidden(environ: Mapping[str, str]) -> bool:
    """Tell whether the environment is one where skips fail the run."""
    return environ.get("CI", "").lower() in ("1", "true") or environ.get("DET_TEST_NO_SKIPS") == "1"


class SkipsPlugin:
    """Collects skips where results arrive: in the controller, or in the only process."""

    def __init__(self) -> None:
        self.skipped = NotRun()
        self.deselected = NotRun()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self.skipped.add(report.longrepr[2])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self.skipped.add(report.longrepr[2])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Store the tests that a worker of xdist deselected; all workers deselect the same."""
        counts = getattr(node, "workeroutput", {}).get(_DESELECTED)
        if counts:
            self.deselected.counts = {(reason, remedy): n for reason, remedy, n in counts}

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if forbidden(os.environ) and self.skipped.inexcusable() and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        not_run = NotRun({**self.skipped.counts, **self.deselected.counts})
        if not not_run.counts:
            return
        terminalreporter.section("tests that did not run")
        for line in not_run.table():
            terminalreporter.write_line(line)
        reasons = self.skipped.inexcusable()
        if forbidden(os.environ) and reasons:
            terminalreporter.write_line(
                f"FAILED: continuous integration skips nothing but {', '.join(_EXCUSED)}", red=True
            )


_DESELECTED = "deselected_heavy"


class HeavyPlugin:
    """Leave out tests marked `heavy` during collection, unless all tests are requested."""

    def __init__(self) -> None:
        self.left_out = NotRun()

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if os.environ.get(HEAVY_VARIABLE) == "1":
            return
        heavy = [(item, mark) for item in items if (mark := _heavy(item))]
        for _, mark in heavy:
            self.left_out.add(because(str(mark.args[0]), HEAVY_REMEDY))
        if heavy:
            out = [item for item, _ in heavy]
            config.hook.pytest_deselected(items=out)
            items[:] = [item for item in items if item not in out]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        counts = [(*key, count) for key, count in self.left_out.counts.items()]
        if output is not None:
            output[_DESELECTED] = counts


def _heavy(item: pytest.Item) -> pytest.Mark | None:
    """Return the mark that leaves a test out: a mark without parameters, or with the parameters of the test."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    marks = item.iter_markers("heavy")
    return next((mark for mark in marks if mark.kwargs.items() <= params.items()), None)


def pytest_configure(config: pytest.Config) -> None:
    heavy = HeavyPlugin()
    config.pluginmanager.register(heavy, "det-heavy")
    if not hasattr(config, "workerinput"):
        table = SkipsPlugin()
        table.deselected = heavy.left_out
        config.pluginmanager.register(table, "det-skips")
