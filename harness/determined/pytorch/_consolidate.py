"""Turn a downloaded sharded checkpoint into one with whole tensors, without other ranks."""

import os
import pathlib
from typing import Any, Dict

import torch

from determined.common.storage import DirectoryStorageManager
from determined.pytorch import _files, _sharded_state

_METADATA_FILE = ".metadata"


def is_sharded(folder: pathlib.Path) -> bool:
    return (folder / _METADATA_FILE).exists()


def read_whole(folder: pathlib.Path) -> Dict[str, Any]:
    """Return the state of a sharded checkpoint with whole tensors, as it was given to `save_sharded`."""
    from determined.checkpointing import StorageReader
    from determined.checkpointing._sharded import load_into

    folder = folder.resolve()
    reader = StorageReader(DirectoryStorageManager(str(folder.parent)), folder.name)
    metadata = reader.read_metadata()
    flat: Dict[str, Any] = {
        name: _empty(entry) for name, entry in metadata.state_dict_metadata.items()
    }
    load_into(flat, reader, alone=True)
    return _nested(flat, metadata.planner_data or {})


def trial_state(folder: pathlib.Path) -> Dict[str, Any]:
    """Return the weights and optimizers of a trial's sharded checkpoint, in the form of other checkpoints."""
    return _sharded_state.in_lists(read_whole(folder))


def consolidate(folder: pathlib.Path) -> None:
    """Replace the shards in a folder by a file `state_dict.pth`, which `torch.load` reads."""
    file = folder / _files.STATE_FILE
    state = read_whole(folder)
    if file.exists():
        chief_state = torch.load(file, map_location="cpu", weights_only=True)
        state = {**chief_state, **_sharded_state.in_lists(state)}
    scratch = folder / f"{_files.STATE_FILE}.partial"
    torch.save(state, scratch)
    os.replace(scratch, file)
    for shard in (*folder.glob("*.distcp"), folder / _METADATA_FILE):
        shard.unlink()


def _empty(entry: Any) -> Any:
    """Return the tensor to load into. Other values have no size, and are replaced."""
    if not hasattr(entry, "size"):
        return None
    return torch.empty(entry.size, dtype=entry.properties.dtype)


def _nested(flat: Dict[str, Any], paths: Dict[str, Any]) -> Dict[str, Any]:
    from torch.distributed.checkpoint._nested_dict import set_element

    nested: Dict[str, Any] = {}
    for name, value in flat.items():
        set_element(nested, tuple(paths.get(name, (name,))), value)
    return nested
