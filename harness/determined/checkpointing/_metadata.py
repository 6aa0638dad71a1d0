"""The file `.metadata` of sharded checkpoints, which says where each piece of each tensor is stored."""

import io
import pickle
from typing import Any, Dict, Iterable, Tuple

from torch.distributed.checkpoint import filesystem

METADATA_FILE = ".metadata"
# The classes that torch stores in this file. Others could run code, so they are rejected.
_ALLOWED = {
    *(
        ("torch.distributed.checkpoint.metadata", name)
        for name in (
            *("Metadata", "MetadataIndex", "StorageMeta", "TensorProperties"),
            *("TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata"),
            "_MEM_FORMAT_ENCODING",
        )
    ),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.distributed.checkpoint._nested_dict", "FLATTEN_MAPPING"),
    ("torch", "Size"),
    ("torch", "device"),
    ("torch.serialization", "_get_layout"),
    ("collections", "OrderedDict"),
    ("pathlib", "PosixPath"),
}


class UntrustedMetadataError(RuntimeError):
    """The file names something that torch does not store in it."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        import torch

        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        raise UntrustedMetadataError(
            f"{METADATA_FILE} of this checkpoint refers to {module}.{name}, which can run code: it is not loaded"
        )


def loads(content: bytes) -> Any:
    return _Unpickler(io.BytesIO(content)).load()


def dumps(metadata: Any, places: Iterable[Tuple[Any, str, int, int]]) -> bytes:
    """Return the content of the file. `places` has the file, offset and length of each item."""
    storage_data: Dict[Any, Any] = {}
    for index, path, offset, length in places:
        storage_data[index] = filesystem._StorageInfo(path, offset, length)
    metadata.storage_data = storage_data
    version = getattr(filesystem, "CURRENT_DCP_VERSION", None)
    if version is not None:
        metadata.version = version
    return pickle.dumps(metadata)
