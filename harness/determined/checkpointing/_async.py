"""Store checkpoints through the writer process, one at a time."""

import logging
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Sequence

from determined.checkpointing import _memory
from determined.checkpointing._buffers import HostBuffers, Slot, plan
from determined.checkpointing._jobs import StateJob, Written, write_folders, write_state
from determined.checkpointing._states import split
from determined.checkpointing._writer import WriterProcess
from determined.core._pending import PendingCheckpoint

logger = logging.getLogger("determined.checkpointing")

_MIB = 1024 * 1024


class AsyncSaver:
    """The buffers and the writer process of one training process."""

    def __init__(self, checkpoints: Any) -> None:
        self._checkpoints = checkpoints
        self._buffers = HostBuffers()
        self._writer = WriterProcess()
        self._reporter = ThreadPoolExecutor(1, "determined-checkpoint")
        self._unfinished: Optional[PendingCheckpoint] = None

    def store_state(
        self, state: Any, metadata: Dict[str, Any], path: str, folders: Sequence[str] = ()
    ) -> PendingCheckpoint:
        """Copy the state and return. Without enough memory for the copy, store the state before returning."""
        started = time.monotonic()
        skeleton, tensors = split(state)
        slots, size = plan(tensors)
        self.wait()
        storage, storage_id = self._checkpoints._storage, str(uuid.uuid4())

        def write_here() -> Written:
            written = Written()
            write_state(storage, storage_id, path, state, written)
            write_folders(storage, storage_id, folders, written)
            return written

        if not self.can_hold(size):
            self.warn_too_large(size)
            self._complete(storage_id, metadata, write_here)
            return stored(storage_id)
        self.fill(tensors, slots, size)
        job = StateJob(storage, storage_id, path, skeleton, slots, tuple(folders))
        return self.submit(
            storage_id,
            lambda: self._complete(storage_id, metadata, lambda: self._writer.run(job)),
            started,
        )

    def wait(self) -> None:
        """Wait for the unfinished checkpoint, and raise its error."""
        pending = self._unfinished
        if pending is None:
            return
        if not pending.done:
            logger.info(
                "waiting for checkpoint %s, which is still being stored: there can be one unfinished "
                "checkpoint; save less often to avoid the wait",
                pending.storage_id,
            )
        try:
            pending._raise_once()
        finally:
            self._unfinished = None

    def raise_failed(self) -> None:
        """Raise the error of a checkpoint that failed meanwhile."""
        if self._unfinished is not None and self._unfinished.done:
            self.wait()

    def can_hold(self, size: int) -> bool:
        more = size - self._buffers.size
        return more <= 0 or _memory.fits(more, self._checkpoints._distributed.local_size)

    def warn_too_large(self, size: int) -> None:
        logger.warning(
            "a state of %d MiB does not fit into the free host memory (%d MiB for %d processes), so training stops "
            "while this checkpoint is stored",
            size // _MIB,
            (_memory.available_bytes() or 0) // _MIB,
            self._checkpoints._distributed.local_size,
        )

    def fill(self, tensors: Sequence[Any], slots: List[Slot], size: int) -> None:
        if self._buffers.reserve(size) or not self._writer.is_running:
            self._writer.start(self._buffers)
        self._buffers.fill(tensors, slots)

    def run(self, job: Any) -> Written:
        return self._writer.run(job)

    def submit(
        self, storage_id: str, complete: Callable[[], None], started: float
    ) -> PendingCheckpoint:
        copied_s = time.monotonic() - started

        def work() -> None:
            try:
                complete()
            finally:
                self._checkpoints._registry.close()
            logger.info(
                "stored checkpoint %s in %.1f s, while training continued after %.3f s",
                storage_id,
                time.monotonic() - started,
                copied_s,
            )

        self._unfinished = PendingCheckpoint(storage_id, self._reporter.submit(work))
        return self._unfinished

    def close(self) -> None:
        try:
            self.wait()
        finally:
            self._reporter.shutdown(wait=True)
            self._writer.stop()
            self._buffers.close()

    def _complete(
        self, storage_id: str, metadata: Dict[str, Any], write: Callable[[], Written]
    ) -> None:
        with self._checkpoints._registered(storage_id, metadata):
            written = write()
            self._checkpoints._publish(storage_id, written.files, metadata, written.checksums)


def stored(storage_id: str) -> PendingCheckpoint:
    future: Future[None] = Future()
    future.set_result(None)
    return PendingCheckpoint(storage_id, future)
