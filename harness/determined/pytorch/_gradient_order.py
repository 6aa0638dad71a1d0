"""The order in which DistributedDataParallel exchanges gradients, preserved across restarts.

After its first backward pass, DistributedDataParallel lays out gradients in the order of that pass. The layout
determines the order in which the ranks' values of a weight are summed. A resumed trial has a different first pass, so
without this module its results would differ in the last bits from an uninterrupted trial.
"""

import functools
from typing import Any, List, Sequence

import torch
from torch import nn


class GradientOrder:
    """Records the order of a model's first backward pass. It has no cost afterwards."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._recorded: List[int] = []
        self._hooks = [
            p.register_hook(functools.partial(self._record, i))
            for i, p in enumerate(self._parameters)
        ]

    def known(self) -> List[int]:
        """Return the indices of the parameters in order, or [] before the first backward pass is complete."""
        return list(self._recorded) if len(self._recorded) == len(self._parameters) else []

    def follow(self, order: Sequence[int]) -> None:
        """Run a first backward pass with zero gradients, so that the wrapper records this order."""
        if sorted(order) != list(range(len(self._parameters))):
            return
        self._remove_hooks()
        self._recorded = list(order)
        ordered = [self._parameters[i] for i in order]
        module, self._model.module = self._model.module, _ZeroGradients(ordered)
        try:
            with torch.enable_grad():
                self._model().backward()
        finally:
            self._model.module = module
        for parameter in self._parameters:
            parameter.grad = None

    def _record(self, index: int, _gradient: torch.Tensor) -> None:
        self._recorded.append(index)
        if len(self._recorded) == len(self._parameters):
            self._remove_hooks()

    def _remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


class _ZeroGradients(nn.Module):  # type: ignore[misc]
    """Gives parameters zero gradients in their order. Autograd processes the latest operation first."""

    def __init__(self, parameters: Sequence[Any]) -> None:
        super().__init__()
        self._ordered = tuple(parameters)

    def forward(self) -> torch.Tensor:
        terms = [(p * 0).sum().float() for p in reversed(self._ordered)]
        return torch.stack(terms).sum()
