"""Make the environments that tests need beside the tests that need none.

A plugin of pytest: with `--environments` a run starts scripts/ml-venv and scripts/stock-client at once. A test that
needs an environment calls the same script, which waits until the environment is there.
"""

import os
import signal
import subprocess

import pytest

from tests.support.ml import ROOT

_MAKE_ALL = """
scripts/webui/browser; scripts/webui/check install
scripts/peer-venv
for name in ml deepspeed tensorflow horovod; do scripts/ml-venv $name || exit; done
scripts/stock-client"""


class EnvironmentsPlugin:
    def pytest_sessionstart(self) -> None:
        """Start when the run has its mark, which tests/support/leftovers.py looks for."""
        log = ROOT / ".venvs" / "environments.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("w") as log_file:
            self._making = subprocess.Popen(
                ["sh", "-c", _MAKE_ALL],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                start_new_session=True,
            )

    def pytest_sessionfinish(self) -> None:
        """Stop running installations; the next run repeats them."""
        if self._making.poll() is None:
            # Not SIGKILL: ninja has its compilers in groups of their own, and ends them itself.
            os.killpg(self._making.pid, signal.SIGTERM)
        self._making.wait()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--environments", action="store_true", help="make all environments beside the tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--environments") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(EnvironmentsPlugin(), "det-environments")
