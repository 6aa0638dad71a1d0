from typing import TYPE_CHECKING

import torch

from determined.pytorch._trial_context import BaseExperimentalContext

if TYPE_CHECKING:
    from determined.pytorch._context import PyTorchTrialContext


class PyTorchExperimentalContext(BaseExperimentalContext):
    """`context.experimental` of a PyTorchTrial."""

    def __init__(self, context: "PyTorchTrialContext") -> None:
        super().__init__(context)
        self._trial_context = context

    def use_amp(self) -> None:
        """Train in mixed precision: autocast every batch, scale losses and gradients (on CUDA)."""
        context = self._trial_context
        if context._scaler is not None:
            raise RuntimeError("use_amp() excludes wrap_scaler(): it brings a scaler of its own")
        context.wrap_scaler(make_scaler(context.device))
        context._auto_amp = True
        context._steps_are_plain = False

    def disable_auto_to_device(self) -> None:
        """Hand batches over as the loader made them; move them with `context.to_device`."""
        self._trial_context._auto_to_device = False


def make_scaler(device: torch.device) -> "torch.amp.GradScaler":
    """The gradient scaler of this torch; it does nothing where there is no CUDA."""
    on_cuda = device.type == "cuda"
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device.type, enabled=on_cuda)
    from torch.cuda.amp import GradScaler

    return GradScaler(enabled=on_cuda)
