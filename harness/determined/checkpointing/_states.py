"""Split a state into its tensors and the rest, which goes to the writer process as a message."""

import collections
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

import torch

_PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes),
    *(torch.dtype, torch.device, torch.Size),
)
_TENSORS = (torch.Tensor, torch.nn.Parameter)


@dataclass(frozen=True)
class Place:
    """The place of a tensor in a split state."""

    index: int


def split(state: Any, where: str = "state") -> Tuple[Any, List[Any]]:
    """Return the state with a `Place` for each tensor, and the tensors. Equal views of one memory are one tensor."""
    tensors: List[Any] = []
    known: Dict[Any, Place] = {}

    def place(tensor: Any) -> Place:
        key = (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if key not in known or not tensor.numel():
            known[key] = Place(len(tensors))
            tensors.append(tensor.detach())
        return known[key]

    return _map(state, place, where), tensors


def join(skeleton: Any, tensors: List[Any]) -> Any:
    """Return the state of which `split` made the skeleton, with these tensors."""
    kind = type(skeleton)
    if kind is Place:
        return tensors[skeleton.index]
    if kind in (list, tuple):
        return kind(join(item, tensors) for item in skeleton)
    if kind is dict:
        return {k: join(v, tensors) for k, v in skeleton.items()}
    if kind is collections.OrderedDict:
        for key in skeleton:
            skeleton[key] = join(skeleton[key], tensors)
    return skeleton


def _map(value: Any, place: Any, where: str) -> Any:
    kind = type(value)
    if kind in _TENSORS and value.layout == torch.strided and not value.is_quantized:
        return place(value)
    if kind in _PLAIN:
        return value
    if kind in (list, tuple):
        return kind(_map(item, place, f"{where}[{i}]") for i, item in enumerate(value))
    if kind is dict:
        return {k: _map(v, place, f"{where}[{k!r}]") for k, v in value.items()}
    if kind is collections.OrderedDict:
        items = ((k, _map(v, place, f"{where}[{k!r}]")) for k, v in value.items())
        ordered = collections.OrderedDict(items)
        # Modules store the versions of their state in an attribute of the dictionary.
        ordered.__dict__.update(vars(value))
        return ordered
    raise TypeError(
        f"{where} is a {kind.__module__}.{kind.__qualname__}, but asynchronous checkpoints store tensors and plain "
        f"values: {_advice(value)}"
    )


def _advice(value: Any) -> str:
    if hasattr(value, "to_local") or hasattr(value, "local_shards"):
        return "pass shard=True on every rank to store a sharded tensor"
    return "convert it to plain values, or write it to a file with checkpoint.store_path()"
