"""Store the checkpoints of a PyTorchTrial while training continues."""

import collections
import logging
import pathlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from typing import Any, Callable, ContextManager, Deque, Dict, NamedTuple, Optional

import torch

from determined.core import PendingCheckpoint
from determined.pytorch import _files, _state
from determined.pytorch._callback import Hooks

logger = logging.getLogger("determined.pytorch")

# One is being stored and one waits. More would fill the memory with copies of the state.
_MAX_UNFINISHED = 2
# The writer process needs the time of loading torch and some hundred MiB, which smaller states do not justify.
ASYNC_BYTES = 256 * 1024 * 1024


class _Unfinished(NamedTuple):
    """A checkpoint that is being stored, and the folder that it needs until then."""

    pending: PendingCheckpoint
    folder: ContextManager[Any] = nullcontext()


class CheckpointSaver:
    """Stores checkpoints in the background, one after another, while training continues.

    Large and sharded states are stored by another process, others by a thread. A failure is raised at the next save or
    at the end. `asynchronous` is None if the size of the state decides about the process.
    """

    def __init__(self, checkpoints: Any, hooks: Hooks, asynchronous: Optional[bool] = None) -> None:
        self.asynchronous = asynchronous
        self._checkpoints = checkpoints
        self._hooks = hooks
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._unfinished: Deque[_Unfinished] = collections.deque()
        self._scratch = ExitStack()
        self._origin: Optional[str] = None
        self._write_in_turn = hooks.overridden("on_checkpoint_write_end") or hooks.overridden(
            "on_checkpoint_end"
        )

    def save(
        self,
        state: Dict[str, Any],
        write_origin: Callable[[pathlib.Path], None],
        metadata: Dict[str, Any],
    ) -> None:
        """Store the state of the chief. `write_origin` writes the files that describe the trial."""
        self.collect()
        self._hooks.call("on_checkpoint_save_start", state)
        measured = _Measured()
        encoded: Dict[str, Any] = _state.encode(state, measured.add)
        if self._uses_writer(measured):
            folders = [self._origin_folder(write_origin)]
            pending = self._checkpoints.store_async(
                encoded, metadata, path=_files.STATE_FILE, folders=folders
            )
            # The call waited for the checkpoint before.
            self.finish()
            self._unfinished.append(_Unfinished(pending))
            return
        host_state = _state.copied(encoded, _state.host_copy())

        def write(path: pathlib.Path) -> None:
            torch.save(host_state, str(path / _files.STATE_FILE))
            write_origin(path)

        self._save_by_thread(write, metadata)

    def save_sharded(
        self,
        shards: Dict[str, Any],
        chief_state: Optional[Dict[str, Any]],
        write_origin: Callable[[pathlib.Path], None],
        metadata: Dict[str, Any],
    ) -> None:
        """Store a sharded state. Every rank calls this, and only the chief has a `chief_state`."""
        self.collect()
        folder = ExitStack()
        with ExitStack() as on_failure:
            on_failure.push(folder)
            folders = []
            if chief_state is not None:
                self._hooks.call("on_checkpoint_save_start", chief_state)
                path = folder.enter_context(tempfile.TemporaryDirectory(prefix="determined-save-"))
                self._write_chief_files(pathlib.Path(path), chief_state, write_origin)
                folders.append(path)
            on_failure.pop_all()
        # The sizes of DTensors are those of the whole tensors, so every rank decides alike.
        if self._is_large(_size_of(shards)):
            pending = self._checkpoints.store_async(shards, metadata, shard=True, folders=folders)
            self.finish()
            self._unfinished.append(_Unfinished(pending, folder))
            return
        with folder:
            uuid = self._checkpoints.save_sharded(shards, metadata, folders=folders)
        self._hooks.call("on_checkpoint_upload_end", uuid)

    def finish(self) -> None:
        """Wait until all pending checkpoints are stored."""
        while self._unfinished:
            self._finish_oldest()

    def collect(self) -> None:
        """Report the checkpoints that are stored by now, without waiting for others."""
        while self._unfinished and self._unfinished[0].pending.done:
            self._finish_oldest()

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        self._scratch.close()

    def _finish_oldest(self) -> None:
        pending, folder = self._unfinished.popleft()
        with folder:
            uuid = pending.wait()
        self._hooks.call("on_checkpoint_upload_end", uuid)

    def _uses_writer(self, measured: "_Measured") -> bool:
        if not self._is_large(measured.size):
            return False
        # Callbacks may read and change all files of the checkpoint before they are stored.
        reason = "a callback has on_checkpoint_write_end()" if self._write_in_turn else None
        if measured.has_special:
            reason = "the state has sparse or quantized tensors"
        if reason is not None and self.asynchronous:
            logger.warning("checkpoints are not stored asynchronously, because %s", reason)
            self.asynchronous = False
        return reason is None

    def _is_large(self, size: int) -> bool:
        return size >= ASYNC_BYTES if self.asynchronous is None else self.asynchronous

    def _origin_folder(self, write_origin: Callable[[pathlib.Path], None]) -> str:
        """Return a folder with the files that describe the trial. They are the same in each checkpoint."""
        if self._origin is None:
            folder = tempfile.TemporaryDirectory(prefix="determined-origin-")
            self._origin = self._scratch.enter_context(folder)
            write_origin(pathlib.Path(self._origin))
        return self._origin

    def _write_chief_files(
        self,
        path: pathlib.Path,
        state: Dict[str, Any],
        write_origin: Callable[[pathlib.Path], None],
    ) -> None:
        torch.save(_state.encode(state, _state.host_copy()), str(path / _files.STATE_FILE))
        write_origin(path)
        self._call_write_hooks(path)

    def _save_by_thread(
        self, write: Callable[[pathlib.Path], None], metadata: Dict[str, Any]
    ) -> None:
        if len(self._unfinished) == _MAX_UNFINISHED:
            self._finish_oldest()
        stored = ExitStack()
        path, uuid = stored.enter_context(self._checkpoints.store_path(metadata))
        if self._write_in_turn:
            with ExitStack() as on_failure:
                on_failure.push(stored)
                write(path)
                self._call_write_hooks(path)
                on_failure.pop_all()
            write = _write_no_more
        future = self._pool.submit(_complete, stored, write, path)
        self._unfinished.append(_Unfinished(PendingCheckpoint(uuid, future)))

    def _call_write_hooks(self, path: pathlib.Path) -> None:
        """Call the callbacks that may add files before the upload."""
        self._hooks.call("on_checkpoint_end", str(path))
        self._hooks.call("on_checkpoint_write_end", str(path))


class _Measured:
    """The size of a state's tensors, and whether the writer process can store all of them."""

    def __init__(self) -> None:
        self.size = 0
        self.has_special = False

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        self.size += tensor.numel() * tensor.element_size()
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
        if not plain or tensor.layout != torch.strided or tensor.is_quantized:
            self.has_special = True
        return tensor


def _size_of(shards: Any) -> int:
    if isinstance(shards, torch.Tensor):
        return int(shards.numel() * shards.element_size())
    return sum(map(_size_of, shards.values())) if isinstance(shards, dict) else 0


def _complete(stored: ExitStack, write: Callable[[pathlib.Path], None], path: pathlib.Path) -> None:
    with stored:
        write(path)


def _write_no_more(path: pathlib.Path) -> None:
    pass
