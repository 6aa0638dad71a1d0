"""Batch inference: run a processor over a data set on all slots."""

from determined.pytorch.experimental._batch_process import torch_batch_process
from determined.pytorch.experimental._processor import (
    TorchBatchProcessor,
    TorchBatchProcessorContext,
)

__all__ = ["TorchBatchProcessor", "TorchBatchProcessorContext", "torch_batch_process"]
