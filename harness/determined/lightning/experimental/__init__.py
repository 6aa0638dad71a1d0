"""A logger that records a Lightning Trainer's run as an experiment."""

from determined.lightning.experimental._logger import DetLogger

__all__ = ["DetLogger"]
