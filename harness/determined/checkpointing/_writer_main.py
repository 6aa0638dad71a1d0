"""The writer process: receive buffers and jobs, and answer each job with its result."""

import contextlib
import mmap
import os
import pickle
import signal
import threading
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, Optional

# Training comes first. A larger value would starve the writer on machines where other programs use all processors.
NICENESS = 5


def main(jobs_fd: int, lifeline_fd: int) -> None:
    # Signals to the whole process group mean the training process, which then waits for its checkpoint.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(lifeline_fd,), daemon=True).start()
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(EOFError):
        _serve(Connection(jobs_fd))
    os._exit(0)


def _end_with_parent(lifeline_fd: int) -> None:
    os.read(lifeline_fd, 1)
    os._exit(1)


def _serve(jobs: Connection) -> None:
    from determined.checkpointing import _jobs

    memory: Optional[mmap.mmap] = None
    while True:
        kind, value = jobs.recv()
        if kind == "buffers":
            fd = reduction.recv_handle(jobs)
            memory = mmap.mmap(fd, value)
            os.close(fd)
            continue
        try:
            answer: Any = ("done", _jobs.run(value, memory))
        except Exception as e:
            answer = ("failed", _portable(e))
        jobs.send(answer)


def _portable(error: Exception) -> Exception:
    """Return the error, or one with its text if it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
