"""Save or load an FSDP2 model and its optimizer on each rank: sharded_script.py MODE STORAGE [CHECKPOINT]."""

import json
import sys
from typing import Any

import torch
from determined.core import CheckpointContext, DistributedContext, DummyDistributedContext
from torch import distributed, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.support.held_storage import HeldStorage, RecordingRegistry


def build(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return a model with rows that four and eight ranks cannot share equally, and tied weights."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(7, 10), nn.ReLU(), nn.Linear(10, 7), nn.Linear(7, 3))
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
    """Return the complete tensors as lists."""
    if isinstance(state, torch.Tensor):
        whole = state.full_tensor() if hasattr(state, "full_tensor") else state
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
    ranks: DistributedContext = DummyDistributedContext()
    if mode != "load-plain":
        distributed.init_process_group("gloo")
        ranks = DistributedContext.from_torch_distributed()
    storage, registry = HeldStorage(folder), RecordingRegistry()
    checkpoints = CheckpointContext(ranks, storage, registry)
    if checkpoint:
        result: dict[str, Any] = {"values": load(checkpoints, *checkpoint)}
    else:
        uuid, values = save(checkpoints, mode)
        result = {"uuid": uuid, "values": values, "states": registry.states}
    checkpoints.close()
    if ranks.rank == 0:
        print(json.dumps(result))
    if distributed.is_initialized():
        distributed.destroy_process_group()


main(*sys.argv[1:])
