"""The models and optimizers of a trial in sharded checkpoints.

Their tensors have the names of parameters, so that they can be loaded on any number of ranks. Other checkpoints number
the parameters of optimizers. Both kinds can be loaded by sharded and by other models.
"""

from typing import Any, Dict, List, Optional

import torch
from torch import nn

from determined.pytorch._backends import unwrapped
from determined.pytorch._parallel import is_sharded, reshard, shard_like

MODELS = "models_state_dict"
OPTIMIZERS = "optimizers_state_dict"


def is_needed(context: Any) -> bool:
    return any(is_sharded(model) for model in context.models)


def collect(context: Any) -> Dict[str, Any]:
    """Return this rank's part of the state."""
    models = _models(context)
    named = {
        str(i): renamed(optimizer.state_dict(), _names(models, optimizer))
        for i, optimizer in enumerate(context.optimizers)
    }
    return {MODELS: dict(models.state_dict()), OPTIMIZERS: named}


def load(context: Any, reader: Any) -> None:
    """Load a sharded checkpoint. Each rank reads the pieces of its parameters."""
    from determined.checkpointing._sharded import load_into

    models = _models(context)
    state = _empty_state(models, reader.read_metadata())
    load_into(state, reader, not torch.distributed.is_initialized())
    models.load_state_dict(state[MODELS])
    for i, optimizer in enumerate(context.optimizers):
        optimizer.load_state_dict(_numbered(state[OPTIMIZERS][str(i)]))


def _empty_state(models: nn.Module, metadata: Any) -> Dict[str, Any]:
    """Return a state to load into, with the optimizer values of the checkpoint, distributed as their parameters are."""
    state: Dict[str, Any] = {MODELS: dict(models.state_dict()), OPTIMIZERS: {}}
    parameters = dict(models.named_parameters())
    for name, path in metadata.planner_data.items():
        if path[0] != OPTIMIZERS:
            continue
        entry = metadata.state_dict_metadata[name]
        _set(state, path, _empty_value(entry, parameters.get(path[3]) if len(path) > 3 else None))
    return state


def _empty_value(entry: Any, parameter: Optional[torch.Tensor]) -> Any:
    if not hasattr(entry, "size"):
        return None
    dtype = entry.properties.dtype
    if parameter is not None and parameter.shape == entry.size:
        return torch.zeros_like(parameter, dtype=dtype, requires_grad=False)
    return torch.empty(entry.size, dtype=dtype)


def _set(state: Dict[str, Any], path: Any, value: Any) -> None:
    from torch.distributed.checkpoint._nested_dict import set_element

    set_element(state, path, value)


def load_whole(context: Any, state: Dict[str, Any]) -> None:
    """Load the state of a checkpoint without shards into sharded models. Each rank keeps its part."""
    models = _models(context)
    for model, values in zip(context.models, state[MODELS]):
        module = unwrapped(model)
        targets = module.state_dict()
        module.load_state_dict({k: shard_like(v, targets[k]) for k, v in values.items()})
    parameters = dict(models.named_parameters())
    for optimizer, numbered in zip(context.optimizers, state[OPTIMIZERS]):
        named = renamed(numbered, _names(models, optimizer))
        for name, values in named["state"].items():
            named["state"][name] = {
                key: _part(value, parameters[name]) for key, value in values.items()
            }
        optimizer.load_state_dict(_numbered(named))


def _part(value: Any, parameter: torch.Tensor) -> Any:
    """Return the part of an optimizer's value for a parameter. Values of other shapes, such as steps, are whole."""
    has_its_shape = isinstance(value, torch.Tensor) and value.shape == parameter.shape
    return shard_like(value, parameter) if has_its_shape else value


def in_lists(sharded: Dict[str, Any]) -> Dict[str, Any]:
    """Convert whole tensors of a sharded checkpoint to the form of other checkpoints."""
    models: List[Dict[str, Any]] = []
    for name, tensor in sharded.get(MODELS, {}).items():
        number, _, parameter = name.partition(".")
        while len(models) <= int(number):
            models.append({})
        models[int(number)][parameter] = tensor
    optimizers = sharded.get(OPTIMIZERS, {})
    return {
        MODELS: models,
        OPTIMIZERS: [_numbered(optimizers[str(i)]) for i in range(len(optimizers))],
    }


def _models(context: Any) -> nn.Module:
    """Return a module of all models, because an optimizer may have parameters of several."""
    models = nn.ModuleList([unwrapped(model) for model in context.models])
    reshard(models)
    return models


def _names(models: nn.Module, optimizer: Any) -> List[List[str]]:
    """Return the names of an optimizer's parameters, by group."""
    names = {id(parameter): name for name, parameter in models.named_parameters()}
    return [[names[id(p)] for p in group["params"]] for group in optimizer.param_groups]


def _numbered(state: Dict[str, Any]) -> Dict[str, Any]:
    """Replace the names of parameters by numbers in the order of the groups, as torch's optimizers do."""
    numbers: Dict[str, int] = {}
    groups = []
    for group in state["param_groups"]:
        for name in group["params"]:
            numbers[name] = len(numbers)
        groups.append({**group, "params": [numbers[name] for name in group["params"]]})
    by_number = {numbers[name]: values for name, values in state.get("state", {}).items()}
    return {"state": by_number, "param_groups": groups}


def renamed(state: Dict[str, Any], groups: List[List[str]]) -> Dict[str, Any]:
    """Replace numbers of parameters by their names."""
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    names = dict(zip(numbers, [name for group in groups for name in group]))
    named_groups = [
        {**group, "params": own_names} for group, own_names in zip(state["param_groups"], groups)
    ]
    return {
        "state": {names[number]: values for number, values in state["state"].items()},
        "param_groups": named_groups,
    }
