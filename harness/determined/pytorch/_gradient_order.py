"""The order in which DistributedDataParallel exchanges gradients, kept over a restart.

After its first backward pass it lays gradients out in the order in which they came, and in which order the ranks'
values of one weight are summed depends on where it lies. So a resumed trial, for which the first pass is
another one, would differ in the last bits from a trial that was never interrupted.
"""

import functools
from typing import Any, List, Sequence

import torch
from torch import nn


class GradientOrder:
    """Notes the order of one model's first backward pass; costs nothing after it."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._noted: List[int] = []
        self._hooks = [
            p.register_hook(functools.partial(self._note, i))
            for i, p in enumerate(self._parameters)
        ]

    def known(self) -> List[int]:
        """Return the indices of the parameters; empty before the first backward pass is complete."""
        return list(self._noted) if len(self._noted) == len(self._parameters) else []

    def follow(self, order: Sequence[int]) -> None:
        """Let a backward pass without effect be the first one, in this order."""
        if sorted(order) != list(range(len(self._parameters))):
            return
        self._forget_hooks()
        self._noted = list(order)
        ordered = [self._parameters[i] for i in order]
        module, self._model.module = self._model.module, _ZeroGradients(ordered)
        try:
            with torch.enable_grad():
                self._model().backward()
        finally:
            self._model.module = module
        for parameter in self._parameters:
            parameter.grad = None

    def _note(self, index: int, _gradient: torch.Tensor) -> None:
        self._noted.append(index)
        if len(self._noted) == len(self._parameters):
            self._forget_hooks()

    def _forget_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


class _ZeroGradients(nn.Module):  # type: ignore[misc]
    """Gives parameters zero gradients in their order: autograd goes back from the newest."""

    def __init__(self, parameters: Sequence[Any]) -> None:
        super().__init__()
        self._ordered = tuple(parameters)

    def forward(self) -> torch.Tensor:
        terms = [(p * 0).sum().float() for p in reversed(self._ordered)]
        return torch.stack(terms).sum()
