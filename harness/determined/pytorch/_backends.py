"""Exchange gradients: not at all on one slot, by torch's DistributedDataParallel, or by Horovod."""

import contextlib
import os
from typing import Any, ContextManager, List

import torch
from torch import nn

from determined.pytorch._gradient_order import GradientOrder


class Backend:
    """The backend of one slot, which exchanges nothing."""

    # Whether it takes part in steps: `synchronize` before gradients are read, `stepping` around the optimizer's.
    takes_part_in_steps = False

    def wrap_model(self, model: nn.Module, device: torch.device) -> nn.Module:
        return model

    def wrap_optimizer(
        self, optimizer: Any, models: List[nn.Module], passes: int, fp16: bool
    ) -> Any:
        return optimizer

    def set_gradient_sync(self, models: List[nn.Module], wanted: bool) -> None:
        """Exchange gradients in the next backward pass, or keep aggregating them here."""

    def synchronize(self, optimizer: Any) -> None:
        """Wait until the gradients are exchanged."""

    def stepping(self, optimizer: Any) -> ContextManager[None]:
        """Enter the block in which an optimizer steps with synchronized gradients."""
        return contextlib.nullcontext()

    def broadcast_weights(self, models: List[nn.Module]) -> None:
        """Start every rank from the chief's weights."""

    def gradient_orders(self) -> List[List[int]]:
        """Return the orders in which gradients are summed, so that a resumed trial can sum them in the same order."""
        return []

    def follow_gradient_orders(self, orders: List[List[int]]) -> None:
        pass

    def close(self) -> None:
        pass


class DDP(Backend):
    """The backend of torch.distributed: NCCL on CUDA, gloo elsewhere."""

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
        for order, known in zip(self._orders, orders):
            order.follow(known)

    def set_gradient_sync(self, models: List[nn.Module], wanted: bool) -> None:
        for model in models:
            if isinstance(model, nn.parallel.DistributedDataParallel):
                model.require_backward_grad_sync = wanted

    def close(self) -> None:
        if self._owns_group and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


class Horovod(Backend):
    """The backend of Horovod, for trials started by its launcher."""

    takes_part_in_steps = True

    def __init__(self, hvd: Any) -> None:
        self._hvd = hvd

    def wrap_optimizer(
        self, optimizer: Any, models: List[nn.Module], passes: int, fp16: bool
    ) -> Any:
        # Names tell Horovod which gradients belong together on different ranks.
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
        # Not the state of optimizers, which every rank has from the checkpoint: to make one that is missing,
        # Horovod steps the optimizer, and the weights decay.
        for model in models:
            state = {k: v for k, v in model.state_dict().items() if torch.is_tensor(v)}
            self._hvd.broadcast_parameters(state, root_rank=0)


def unwrapped(model: Any) -> Any:
    """Take the user's model out of its DistributedDataParallel."""
    wrapper = nn.parallel.DistributedDataParallel
    return model.module if isinstance(model, (wrapper, nn.DataParallel)) else model


def started_by_torch_distributed() -> bool:
    """Return whether this process is one of several workers that torchrun (or our launcher on it) started."""
    named = os.environ.get("USE_TORCH_DISTRIBUTED", "").lower() in ("1", "true")
    launched = "TORCHELASTIC_RUN_ID" in os.environ
    return (named or launched) and "RANK" in os.environ and "WORLD_SIZE" in os.environ


def started_by_horovod() -> bool:
    return "HOROVOD_RANK" in os.environ or "HOROVOD_SIZE" in os.environ
