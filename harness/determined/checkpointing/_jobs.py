"""The work of the writer process. Without enough memory for buffers, the training process does it by itself."""

import io
from dataclasses import dataclass, field
from typing import Any, Dict, List, Sequence, Tuple

import torch

from determined.checkpointing._buffers import Slot, view
from determined.checkpointing._states import join
from determined.common.storage import Checksums, StorageManager, list_directory


@dataclass(frozen=True)
class StateJob:
    """A state to write with `torch.save`, and directories of further files."""

    storage: StorageManager
    storage_id: str
    path: str
    skeleton: Any
    slots: List[Slot]
    folders: Tuple[str, ...] = ()


@dataclass(frozen=True)
class ShardJob:
    """The items of one rank, in the format of `torch.distributed.checkpoint`. Each is a tensor's slot or bytes."""

    storage: StorageManager
    storage_id: str
    path: str
    indices: List[Any]
    contents: List[Any]
    slots: List[Slot]
    folders: Tuple[str, ...] = ()


@dataclass
class Written:
    """The stored files, and the places of sharded items in them."""

    files: Dict[str, int] = field(default_factory=dict)
    checksums: Checksums = field(default_factory=dict)
    items: List[Tuple[Any, int, int]] = field(default_factory=list)  # index, offset, length


def run(job: Any, memory: Any) -> Written:
    """Do a job with the tensors in shared memory."""
    tensors = [view(memory, slot) for slot in job.slots]
    written = Written()
    if isinstance(job, StateJob):
        write_state(job.storage, job.storage_id, job.path, join(job.skeleton, tensors), written)
    else:
        contents = [tensors[c] if isinstance(c, int) else c for c in job.contents]
        items = list(zip(job.indices, contents))
        write_shard(job.storage, job.storage_id, job.path, items, written)
    write_folders(job.storage, job.storage_id, job.folders, written)
    return written


def write_state(
    storage: StorageManager, storage_id: str, path: str, state: Any, written: Written
) -> None:
    with storage.open_write(storage_id, path, _size_of(state)) as file:
        torch.save(state, file)
    _record(path, file, written)


def write_shard(
    storage: StorageManager,
    storage_id: str,
    path: str,
    items: Sequence[Tuple[Any, Any]],
    written: Written,
) -> None:
    """Write tensors and bytes one after another, as torch's FileSystemReader expects them."""
    if not items:
        return
    expected = sum(_size_of(content) for _, content in items)
    with storage.open_write(storage_id, path, expected) as file:
        for index, content in items:
            offset = file.size
            with file.piece():
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    torch.save(_alone(content), file)
            written.items.append((index, offset, file.size - offset))
    _record(path, file, written)


def write_folders(
    storage: StorageManager, storage_id: str, folders: Sequence[str], written: Written
) -> None:
    for folder in folders:
        entries = list_directory(folder)
        written.checksums.update(storage.upload(folder, storage_id, list(entries)))
        written.files.update(entries)


def as_bytes(content: Any) -> Any:
    """Return the bytes of a buffer, and tensors as they are."""
    return content.getvalue() if isinstance(content, io.BytesIO) else content


def _alone(tensor: Any) -> Any:
    """Return the tensor on the host in a storage of its own size, because `torch.save` writes whole storages."""
    tensor = tensor.detach().cpu()
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return tensor if whole else tensor.clone()


def _size_of(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return int(value.numel() * value.element_size())
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_size_of, value.values()))
    return sum(map(_size_of, value)) if isinstance(value, (list, tuple)) else 0


def _record(path: str, file: Any, written: Written) -> None:
    written.files[path] = file.size
    if file.checksum is not None:
        written.checksums[path] = file.checksum
