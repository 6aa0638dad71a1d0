"""Models whose parameters are distributed over ranks, with torch's FSDP2 or by the user."""

import logging
from typing import Any, Callable, Optional, Type

import torch
from torch import nn

logger = logging.getLogger("determined.pytorch")

# Distributes a model over the ranks of a mesh, in place.
ParallelPlan = Callable[[nn.Module, Any], Any]


class FSDP:
    """A plan that shards parameters, gradients and optimizer states over all ranks: `FSDP(TransformerBlock)`.

    Modules of the given classes gather their parameters one after another, so that a rank never holds the whole model.
    The options are those of `torch.distributed.fsdp.fully_shard`, such as `mp_policy` and `reshard_after_forward`.
    """

    def __init__(self, *blocks: Type[nn.Module], **options: Any) -> None:
        self.blocks = blocks
        self.options = options

    def __call__(self, model: nn.Module, mesh: Any) -> nn.Module:
        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError as e:
            raise RuntimeError(
                f"pytorch.FSDP needs torch 2.6 or later, and this is torch {torch.__version__}"
            ) from e
        blocks = [m for m in model.modules() if isinstance(m, self.blocks) and m is not model]
        if self.blocks and not blocks:
            names = ", ".join(block.__name__ for block in self.blocks)
            raise ValueError(f"the model has no modules of {names}, which pytorch.FSDP() names")
        # Nested modules are sharded before the modules that contain them.
        for module in (*reversed(blocks), model):
            fully_shard(module, mesh=mesh, **self.options)
        return model


def is_sharded(model: nn.Module) -> bool:
    """Return whether the parameters of the model are distributed."""
    # The outermost module of FSDP2 keeps whole parameters between a validation and the next backward pass.
    by_fsdp = any(_is_fsdp(module) for module in model.modules())
    return by_fsdp or any(hasattr(parameter, "device_mesh") for parameter in model.parameters())


def reshard(model: nn.Module) -> None:
    """Let every module of FSDP2 have its sharded parameters again."""
    for module in model.modules():
        if _is_fsdp(module):
            module.reshard()


def shard_like(whole: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return this rank's part of a whole tensor, distributed as another tensor is."""
    if not hasattr(target, "device_mesh"):
        return whole
    from torch.distributed.tensor import distribute_tensor

    whole = whole.to(device=target.device)
    return distribute_tensor(whole, target.device_mesh, target.placements, src_data_rank=None)


def _is_fsdp(module: Any) -> bool:
    return hasattr(module, "reshard") and hasattr(module, "set_requires_gradient_sync")


def distribute(model: nn.Module, plan: Optional[ParallelPlan], device: torch.device) -> nn.Module:
    """Apply a plan to a model, with the chief's weights. The model of a single rank stays as it is."""
    if plan is None or not torch.distributed.is_initialized():
        return model
    from torch.distributed.device_mesh import init_device_mesh

    _copy_from_chief(model, device)
    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    distributed = plan(model, mesh)
    return model if distributed is None else distributed


def set_gradient_sync(model: nn.Module, wanted: bool) -> None:
    """Set whether the next backward pass reduces gradients, for models of FSDP2."""
    if hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(wanted)


def _copy_from_chief(model: nn.Module, device: torch.device) -> None:
    """Give every rank the chief's weights, one tensor at a time, because the whole model may not fit on a device."""
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_meta:
                raise ValueError(
                    "wrap_model(parallel=...) was given a model on the meta device: shard and initialize it yourself, "
                    "and call wrap_model() without `parallel`"
                )
            copy = tensor.detach().to(device)
            torch.distributed.broadcast(copy, src=0)
            tensor.copy_(copy)
