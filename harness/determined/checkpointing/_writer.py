"""The training process's side of the writer process."""

import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing import reduction
from typing import Any, Optional

from determined.checkpointing._buffers import HostBuffers
from determined.checkpointing._jobs import Written

_START = (
    "import sys; sys.path[:] = {path!r}; from determined.checkpointing._writer_main import main; "
    "main({jobs}, {lifeline})"
)


class WriterDied(RuntimeError):
    """The writer process ended while it stored a checkpoint."""


class WriterProcess:
    """A process that stores one checkpoint at a time. It starts with the first one, and again after a failure.

    It is a process, because serialising takes Python's global lock away from a training process. It ends when the
    training process ends, even by SIGKILL, because a pipe between them closes.
    """

    def __init__(self) -> None:
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._jobs: Any = None
        self._lifeline = -1

    def start(self, buffers: HostBuffers) -> None:
        """Start the process, or replace its buffers. It loads torch meanwhile, so this returns at once."""
        if self._process is None:
            self._launch()
        self._jobs.send(("buffers", buffers.size))
        assert self._process is not None
        reduction.send_handle(self._jobs, buffers.fd, self._process.pid)

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def run(self, job: Any) -> Written:
        """Do a job in the process. Raise its error, or WriterDied."""
        try:
            self._jobs.send(("job", job))
            outcome, value = self._jobs.recv()
        except (EOFError, OSError) as e:
            raise WriterDied(self._forget_dead(job.storage_id)) from e
        if outcome == "failed":
            raise value
        written: Written = value
        return written

    def stop(self) -> None:
        """End the process. A job that it does is lost, so wait for its end before."""
        if self._process is None:
            return
        self._jobs.close()
        os.close(self._lifeline)
        self._process.wait()
        self._process = None

    def _launch(self) -> None:
        self._jobs, theirs = multiprocessing.Pipe()
        lifeline, self._lifeline = os.pipe()
        command = _START.format(path=sys.path, jobs=theirs.fileno(), lifeline=lifeline)
        # A writer has no use for a GPU, and creating a context on one takes its memory.
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", command],
                stdin=subprocess.DEVNULL,
                env=environment,
                pass_fds=(theirs.fileno(), lifeline),
            )
        finally:
            theirs.close()
            os.close(lifeline)

    def _forget_dead(self, storage_id: str) -> str:
        """Make room for a new process. Return a description of the end of the old one."""
        assert self._process is not None
        process = self._process
        self.stop()
        return (
            f"the process {process.pid} that writes checkpoints ended with status {process.returncode} "
            f"while it stored checkpoint {storage_id}{_hint(process.returncode)}"
        )


def _hint(status: int) -> str:
    return "; the machine may have run out of memory" if status == -signal.SIGKILL else ""
