"""Save or load an FSDP2 model and its optimizer on each rank: sharded_script.py MODE STORAGE [CHECKPOINT].

STORAGE is a folder, or the JSON of a section `checkpoint_storage`. With PART_BYTES, uploads in parts have such parts,
and the model gets a weight with which a shard of two ranks needs three of them.
"""

import hashlib
import json
import os
import resource
import sys
from typing import Any

import torch
from determined.common import storage as storages
from determined.common.storage import _transfer
from determined.core import CheckpointContext, DistributedContext, DummyDistributedContext
from torch import distributed, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.support.held_storage import HeldStorage, RecordingRegistry

PART_BYTES = int(os.environ.get("PART_BYTES", "0"))


def build(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return a model with rows that four and eight ranks cannot share equally, and tied weights."""
    torch.manual_seed(seed)
    layers = [nn.Linear(7, 10), nn.ReLU(), nn.Linear(10, 7), nn.Linear(7, 3)]
    if PART_BYTES:
        layers.append(nn.Linear(3, PART_BYTES // 8, bias=False))
    model = nn.Sequential(*layers)
    if distributed.is_initialized():
        mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(3):
        model(torch.ones(4, 7)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def full_values(state: Any) -> Any:
    """Return the complete tensors as lists, and large ones as digests."""
    if isinstance(state, torch.Tensor):
        whole = state.full_tensor() if hasattr(state, "full_tensor") else state
        if whole.numel() > 10_000:
            return hashlib.sha256(whole.contiguous().numpy().tobytes()).hexdigest()
        return whole.tolist()
    if isinstance(state, dict):
        return {str(k): full_values(v) for k, v in state.items()}
    return [full_values(v) for v in state] if isinstance(state, (list, tuple)) else state


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state}


def save(checkpoints: CheckpointContext, mode: str) -> tuple[str, Any]:
    model, optimizer = build(seed=1)
    train(model, optimizer)
    state = state_of(model, optimizer)
    if mode == "save":
        uuid = checkpoints.save_sharded(state, {"steps_completed": 3})
        return uuid, full_values(state)
    pending = checkpoints.store_async(state, {"steps_completed": 3}, shard=True)
    values = full_values(state)
    train(model, optimizer)
    return pending.wait(), values


def load(checkpoints: CheckpointContext, uuid: str) -> Any:
    model, optimizer = build(seed=2)
    state = state_of(model, optimizer)
    checkpoints.load_sharded(uuid, state)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )
    return full_values(state_of(model, optimizer))


def main(mode: str, folder: str, *checkpoint: str) -> None:
    torch.set_num_threads(1)
    _transfer.PART_BYTES = PART_BYTES or _transfer.PART_BYTES
    if limit := os.environ.get("FILE_LIMIT"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    ranks: DistributedContext = DummyDistributedContext()
    if mode != "load-plain":
        distributed.init_process_group("gloo")
        ranks = DistributedContext.from_torch_distributed()
    is_config = folder.startswith("{")
    storage = storages.from_config(json.loads(folder)) if is_config else HeldStorage(folder)
    registry = RecordingRegistry()
    checkpoints = CheckpointContext(ranks, storage, registry)
    result: dict[str, Any] = {"states": registry.states}
    try:
        if checkpoint:
            result["values"] = load(checkpoints, *checkpoint)
        else:
            result["uuid"], result["values"] = save(checkpoints, mode)
    except Exception as e:
        result["error"] = f"{type(e).__name__}: {e}"
    checkpoints.close()
    if ranks.rank == 0:
        print(json.dumps(result))
    if distributed.is_initialized():
        distributed.destroy_process_group()


main(*sys.argv[1:])
