"""Host memory that the training process fills and the writer process reads. It is allocated once and used again."""

import logging
import mmap
import os
import tempfile
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch

logger = logging.getLogger("determined.checkpointing")

_ALIGNMENT = 256
_MIB = 1024 * 1024
# A growing state, such as an optimizer after its first step, does not need new memory each time.
_SPARE = 1.05


class Slot(NamedTuple):
    """The place of a tensor in the buffers."""

    offset: int
    nbytes: int
    dtype: Any
    shape: Tuple[int, ...]
    stride: Tuple[int, ...]


def plan(tensors: Sequence[Any]) -> Tuple[List[Slot], int]:
    """Return the slots of tensors and the number of bytes that they need. Strides of dense tensors are kept."""
    slots = []
    end = 0
    for tensor in tensors:
        nbytes = tensor.numel() * tensor.element_size()
        dense = torch.ops.aten.is_non_overlapping_and_dense(tensor)
        stride = tensor.stride() if dense else _contiguous(tensor.shape)
        slots.append(Slot(end, nbytes, tensor.dtype, tuple(tensor.shape), tuple(stride)))
        end += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
    return slots, end


def view(memory: Any, slot: Slot) -> Any:
    """Return the tensor of a slot. It has a storage of its own, because `torch.save` writes whole storages."""
    if not slot.nbytes:
        return torch.empty(slot.shape, dtype=slot.dtype)
    elements = slot.nbytes // torch.empty((), dtype=slot.dtype).element_size()
    flat = torch.frombuffer(memory, dtype=slot.dtype, count=elements, offset=slot.offset)
    return flat.as_strided(slot.shape, slot.stride)


def copy_tensors(memory: Any, tensors: Sequence[Any], slots: Sequence[Slot], start: int) -> None:
    """Copy tensors to their slots in any memory, behind its first `start` bytes."""
    for tensor, slot in zip(tensors, slots):
        view(memory, slot._replace(offset=start + slot.offset)).copy_(tensor)


class HostBuffers:
    """A segment of shared memory. `fill` copies tensors into it, to the same places if their layout is the same.

    The memory has no name in a file system: containers often limit /dev/shm to 64 MiB.
    """

    def __init__(self) -> None:
        self.size = 0
        self.fd = -1
        self._memory: Optional[mmap.mmap] = None
        self._slots: List[Slot] = []
        self._targets: List[Any] = []
        self._pinned = False

    def reserve(self, size: int) -> bool:
        """Make room for `size` bytes. Return True if this is new memory, which the writer does not have yet."""
        if size <= self.size:
            return False
        self.close()
        self.size = int(max(size, mmap.PAGESIZE) * _SPARE)
        self.fd = _open_memory(self.size)
        self._memory = mmap.mmap(self.fd, self.size)
        self._pinned = _pin(self._memory, self.size)
        logger.info(
            "asynchronous checkpoints use %d MiB of %shost memory in this process",
            self.size // _MIB,
            "pinned " if self._pinned else "",
        )
        return True

    def fill(self, tensors: Sequence[Any], slots: List[Slot]) -> None:
        """Copy the tensors. The copies from all devices run at once, and this waits for them at the end."""
        if slots != self._slots:
            self._targets = [view(self._memory, slot) for slot in slots]
            self._slots = slots
        devices = set()
        for target, tensor in zip(self._targets, tensors):
            target.copy_(tensor, non_blocking=self._pinned)
            devices.add(tensor.device)
        for device in devices:
            if device.type == "cuda":
                torch.cuda.current_stream(device).synchronize()

    def close(self) -> None:
        if self._memory is None:
            return
        if self._pinned:
            _unpin(self._memory)
        self._targets, self._slots, self.size = [], [], 0
        self._memory.close()
        os.close(self.fd)
        self._memory, self.fd = None, -1


def _open_memory(size: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("determined-checkpoint", os.MFD_CLOEXEC)
    else:
        with tempfile.NamedTemporaryFile(prefix="determined-checkpoint-") as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd


def _contiguous(shape: Sequence[int]) -> Tuple[int, ...]:
    stride = []
    step = 1
    for length in reversed(shape):
        stride.append(step)
        step *= max(length, 1)
    return tuple(reversed(stride))


def _address(memory: mmap.mmap) -> int:
    return int(torch.frombuffer(memory, dtype=torch.uint8).data_ptr())


def _pin(memory: mmap.mmap, size: int) -> bool:
    """Lock the memory for the GPU, which copies to it several times faster than to other memory."""
    if not torch.cuda.is_available():
        return False
    status = int(torch.cuda.cudart().cudaHostRegister(_address(memory), size, 0))
    if status:
        logger.warning(
            "cannot pin %d MiB of host memory (CUDA error %d), so copies of checkpoints are slower; "
            "a limit on locked memory (ulimit -l) is one cause",
            size // _MIB,
            status,
        )
    return not status


def _unpin(memory: mmap.mmap) -> None:
    torch.cuda.cudart().cudaHostUnregister(_address(memory))
