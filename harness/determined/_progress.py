"""The progress of this process, for the `hang_timeout` of its trial.

A rank marks its progress by the modification time of a file. The entry program of its container reads the times of all
its ranks, and asks a rank for its stacks with a signal if no rank of the trial makes progress.
"""

import faulthandler
import os
import signal
import sys
import time
from typing import Optional

from determined import _paths

# Unset unless the trial has a hang_timeout.
VARIABLE = "DET_PROGRESS_DIR"
SIGNAL = signal.SIGUSR2
_LEAST_PAUSE_S = 1.0


def directory() -> str:
    return os.path.join(_paths.run_dir(), "progress")


class Progress:
    """Marks the progress of this process at most once per second."""

    def __init__(self) -> None:
        self._path: Optional[str] = None
        self._next = 0.0

    def start(self) -> None:
        """Register this process, so that it is watched and writes its stacks on a signal."""
        folder = os.environ.get(VARIABLE)
        if not folder or self._path is not None:
            return
        faulthandler.register(SIGNAL, file=sys.__stderr__ or sys.stderr, all_threads=True)
        self._path = os.path.join(folder, f"{os.environ.get('RANK', '0')}.{os.getpid()}")
        self._write()

    def mark(self) -> None:
        """Note that this process has completed a step, a report or another part of its work."""
        if self._path is not None and time.monotonic() >= self._next:
            self._write()

    def _write(self) -> None:
        assert self._path is not None
        self._next = time.monotonic() + _LEAST_PAUSE_S
        try:
            with open(self._path, "w"):
                pass
        except OSError:
            self._path = None  # the container's files are gone, so it ends


_progress = Progress()
start, mark = _progress.start, _progress.mark
