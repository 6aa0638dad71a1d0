"""Checkpoints of large states: asynchronous through a writer process, and sharded over ranks.

An asynchronous checkpoint goes through these states:

- Copying: the training thread copies tensors to shared host buffers (`_buffers`). Only this stops training.
- Announced: a thread reports the checkpoint as ACTIVE, so that the cluster can delete an interrupted upload.
- Writing: the writer process (`_writer`, `_writer_main`) serialises the buffers and uploads them (`_jobs`).
- Stored: all files of all ranks are in storage (`_exchange`).
- Completed: the chief reports the checkpoint as COMPLETED. From now on it is used.
- Failed: the next call raises the error. The buffers are free again.

At most one checkpoint of a process is between copying and completed. The next one waits for it.

`StorageWriter` and `StorageReader` connect `torch.distributed.checkpoint` with the storages of checkpoints.
"""

from typing import Any

__all__ = ["StorageReader", "StorageWriter"]


def __getattr__(name: str) -> Any:
    # This module imports torch.
    if name in __all__:
        from determined.checkpointing import _sharded

        return getattr(_sharded, name)
    raise AttributeError(f"module 'determined.checkpointing' has no attribute {name!r}")
