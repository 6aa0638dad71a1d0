"""The file `.metadata` of sharded checkpoints is read without running code that it names."""

import os
import pickle
from typing import Any

import pytest
import torch
from determined.checkpointing import _metadata
from determined.core import CheckpointContext


class Evil:
    def __reduce__(self) -> Any:
        return os.getpid, ()


def test_metadata_that_names_other_code_is_rejected() -> None:
    with pytest.raises(_metadata.UntrustedMetadataError, match="getpid"):
        _metadata.loads(pickle.dumps(Evil()))


def test_single_process_stores_and_loads_without_torch_distributed(
    checkpoints: CheckpointContext,
) -> None:
    state = {"a": {"weight": torch.randn(3, 4)}, "steps": 7}
    uuid = checkpoints.save_sharded(state, {"steps_completed": 1})
    loaded: dict[str, Any] = {"a": {"weight": torch.zeros(3, 4)}, "steps": 0}
    checkpoints.load_sharded(uuid, loaded)
    assert loaded["a"]["weight"].equal(state["a"]["weight"])  # type: ignore[index]
    assert loaded["steps"] == 7


def test_other_checkpoint_is_not_sharded(checkpoints: CheckpointContext) -> None:
    uuid = checkpoints.store_async({"weight": torch.zeros(1)}, {"steps_completed": 1}).wait()
    with pytest.raises(RuntimeError, match=r"rank 0.*is not sharded"):
        checkpoints.load_sharded(uuid, {"weight": torch.zeros(1)})
