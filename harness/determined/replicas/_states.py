"""Convert a state to tensors and a skeleton of other values, and back."""

import pickle
from typing import Any, List, NamedTuple

from determined.replicas._slots import DATA_AT


class Encoded(NamedTuple):
    """A state to store. The tensors are copied later, straight to their place in memory."""

    tensors: List[Any]
    slots: List[Any]
    size: int  # bytes of the tensors
    skeleton: bytes

    @property
    def stored_bytes(self) -> int:
        return DATA_AT + self.size + len(self.skeleton)


def encode(state: Any) -> Encoded:
    """Split a state of tensors and plain values. Bytes need no torch."""
    if isinstance(state, (bytes, bytearray)):
        return Encoded([], [], 0, pickle.dumps((bytes(state), []), protocol=4))
    from determined.checkpointing._buffers import plan
    from determined.checkpointing._states import split

    skeleton, tensors = split(state)
    slots, size = plan(tensors)
    return Encoded(tensors, slots, size, pickle.dumps((skeleton, slots), protocol=4))


def fill(memory: Any, encoded: Encoded) -> None:
    """Copy a state to the memory of a slot file. Training may change the tensors afterwards."""
    if encoded.tensors:
        from determined.checkpointing._buffers import copy_tensors

        copy_tensors(memory, encoded.tensors, encoded.slots, DATA_AT)
    start = DATA_AT + encoded.size
    memory[start : start + len(encoded.skeleton)] = encoded.skeleton


def decode(content: bytearray, data_bytes: int) -> Any:
    """Return the state of a stored item. Its tensors use the memory of `content`."""
    skeleton, slots = pickle.loads(memoryview(content)[data_bytes:])
    if not slots:
        return skeleton
    from determined.checkpointing._buffers import view
    from determined.checkpointing._states import join

    return join(skeleton, [view(content, slot) for slot in slots])
