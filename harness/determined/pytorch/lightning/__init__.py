"""The earlier name of `determined.lightning`, from before 0.24."""

from determined.lightning._adapter import LightningAdapter

__all__ = ["LightningAdapter"]
