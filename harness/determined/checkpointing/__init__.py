"""Checkpoints of large states: asynchronous through a writer process, and sharded over ranks.

An asynchronous checkpoint goes through these states:

    copying     the training thread copies tensors to shared host buffers (`_buffers`); only this stops training
    announced   a thread reports the checkpoint as ACTIVE, so that the cluster can delete an interrupted upload
    writing     the writer process (`_writer`, `_writer_main`) serialises the buffers and uploads them (`_jobs`)
    stored      all files are in storage, of all ranks (`_exchange`)
    completed   the chief reports the checkpoint as COMPLETED; from now on it is used
    failed      the error is raised by the next call; the buffers are free again

At most one checkpoint of a process is between `copying` and `completed`. The next one waits for it.

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
