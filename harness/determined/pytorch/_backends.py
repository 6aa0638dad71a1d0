"""Gradient exchange between slots, with torch's DistributedDataParallel or with Horovod."""

import contextlib
import os
from typing import Any, ContextManager, List

import torch
from torch import nn

from determined.pytorch._gradient_order import GradientOrder
from determined.pytorch._parallel import set_gradient_sync


class Backend:
    """The backend of a single slot, which does not exchange gradients."""

    # If true, the trainer calls `synchronize` before it reads gradients, and steps optimizers inside `stepping`.
    takes_part_in_steps = False

    def wrap_model(self, model: nn.Module, device: torch.device) -> nn.Module:
        return model

    def wrap_optimizer(
        self, optimizer: Any, models: List[nn.Module], passes: int, fp16: bool
    ) -> Any:
        return optimizer

    def set_gradient_sync(self, models: List[nn.Module], wanted: bool) -> None:
        """Set whether the next backward pass exchanges gradients or aggregates them locally."""

    def synchronize(self, optimizer: Any) -> None:
        """Wait until all gradients are exchanged."""

    def stepping(self, optimizer: Any) -> ContextManager[None]:
        """Return a context manager in which an optimizer steps with gradients that are already synchronized."""
        return contextlib.nullcontext()

    def broadcast_weights(self, models: List[nn.Module]) -> None:
        """Copy the chief's weights to every rank."""

    def gradient_orders(self) -> List[List[int]]:
        """Return the orders in which gradients are summed, so that a resumed trial can use the same orders."""
        return []

    def follow_gradient_orders(self, orders: List[List[int]]) -> None:
        pass

    def close(self) -> None:
        pass


class DDP(Backend):
    """The backend of torch.distributed: NCCL with CUDA, otherwise gloo."""

    def __init__(self) -> None:
        self._orders: List[GradientOrder] = []
        self._owns_group = not torch.distributed.is_initialized()
        if self._owns_group:
            torch.distributed.init_process_group(
                "nccl" if torch.cuda.is_available() else "gloo", init_method="env://"
            )

    def wrap_model(self, model: nn.Module, device: torch.device) -> nn.Module:
        if not any(parameter.requires_grad for parameter in model.parameters()):
            return model
        ids = [device.index] if device.type == "cuda" else None
        wrapped = nn.parallel.DistributedDataParallel(model, device_ids=ids)
        self._orders.append(GradientOrder(wrapped))
        return wrapped

    def gradient_orders(self) -> List[List[int]]:
        return [order.known() for order in self._orders]

    def follow_gradient_orders(self, orders: List[List[int]]) -> None:
        for order, stored_order in zip(self._orders, orders):
            order.follow(stored_order)

    def set_gradient_sync(self, models: List[nn.Module], wanted: bool) -> None:
        for model in models:
            if isinstance(model, nn.parallel.DistributedDataParallel):
                model.require_backward_grad_sync = wanted
            else:
                set_gradient_sync(model, wanted)

    def close(self) -> None:
        if self._owns_group and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


class Horovod(Backend):
    """The backend of Horovod, for trials that its launcher started."""

    takes_part_in_steps = True

    def __init__(self, hvd: Any) -> None:
        self._hvd = hvd

    def wrap_optimizer(
        self, optimizer: Any, models: List[nn.Module], passes: int, fp16: bool
    ) -> Any:
        # Horovod matches the gradients of different ranks by these names.
        owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
        named = [
            (f"{i}.{name}", p)
            for i, model in enumerate(models)
            for name, p in model.named_parameters()
            if id(p) in owned
        ]
        compression = self._hvd.Compression.fp16 if fp16 else self._hvd.Compression.none
        return self._hvd.DistributedOptimizer(
            optimizer,
            named_parameters=named,
            backward_passes_per_step=passes,
            compression=compression,
        )

    def synchronize(self, optimizer: Any) -> None:
        optimizer.synchronize()

    def stepping(self, optimizer: Any) -> ContextManager[None]:
        skipping: ContextManager[None] = optimizer.skip_synchronize()
        return skipping

    def broadcast_weights(self, models: List[nn.Module]) -> None:
        # Every rank already has the optimizer state from the checkpoint. To broadcast a missing state, Horovod would
        # step the optimizer, which decays the weights.
        for model in models:
            state = {k: v for k, v in model.state_dict().items() if torch.is_tensor(v)}
            self._hvd.broadcast_parameters(state, root_rank=0)


def unwrapped(model: Any) -> Any:
    """Return the user's model without its DistributedDataParallel wrapper."""
    wrapper = nn.parallel.DistributedDataParallel
    return model.module if isinstance(model, (wrapper, nn.DataParallel)) else model


def started_by_torch_distributed() -> bool:
    """Return whether torchrun, or our launcher, started this process as one of several workers."""
    is_marked = os.environ.get("USE_TORCH_DISTRIBUTED", "").lower() in ("1", "true")
    by_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    return (is_marked or by_torchrun) and "RANK" in os.environ and "WORLD_SIZE" in os.environ


def started_by_horovod() -> bool:
    return "HOROVOD_RANK" in os.environ or "HOROVOD_SIZE" in os.environ
