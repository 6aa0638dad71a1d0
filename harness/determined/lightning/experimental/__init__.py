"""A logger that makes a Lightning Trainer's run an experiment."""

from determined.lightning.experimental._logger import DetLogger

__all__ = ["DetLogger"]
