"""PyTorch Lightning: log a Lightning Trainer with `experimental.DetLogger`, or run a module as a PyTorchTrial."""

from determined.lightning._adapter import LightningAdapter

__all__ = ["LightningAdapter"]
