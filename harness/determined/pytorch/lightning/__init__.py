"""The name of `determined.lightning` before version 0.24."""

from determined.lightning._adapter import LightningAdapter

__all__ = ["LightningAdapter"]
