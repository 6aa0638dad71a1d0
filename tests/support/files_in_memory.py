"""Keep the many files of tests in memory if there is enough, because a disk slows clusters down.

A plugin of pytest. Files of a failed run stay there until the next run.
"""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.memory import MEMORY, new_folder

# Room in the memory folder, and free memory.
ROOM_BYTES, FREE_BYTES = 8 * 1024**3, 16 * 1024**3
_ROOT = "PYTEST_DEBUG_TEMPROOT"  # where pytest makes its temporary folders, if that is set
_FOLDER, _FAILED = pytest.StashKey[Path](), pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if is_worker or config.option.basetemp or _ROOT in os.environ or not _is_roomy():
        return
    folder = config.stash[_FOLDER] = new_folder(MEMORY)
    os.environ[_ROOT] = str(folder)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Check the result of the run after plugins that may change it."""
    session.config.stash[_FAILED] = session.exitstatus != pytest.ExitCode.OK


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_FOLDER, None)
    if folder is not None:
        del os.environ[_ROOT]
        if not config.stash.get(_FAILED, True):
            shutil.rmtree(folder, ignore_errors=True)


def _is_roomy() -> bool:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        room = shutil.disk_usage(MEMORY).free
    except OSError:  # not on Linux
        return False
    (available,) = (int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return room >= ROOM_BYTES and available * 1024 >= FREE_BYTES
