"""Event files written with PyTorch's SummaryWriter."""

import os
from typing import Any, Optional, Union

from determined.tensorboard import get_base_path
from determined.tensorboard.metric_writers._batch import MetricWriter


class TorchWriter(MetricWriter):
    """A writer for PyTorch. `writer` is the SummaryWriter itself, for images, histograms and other data."""

    def __init__(self, log_dir: "Optional[Union[str, os.PathLike[str]]]" = None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(log_dir=os.fspath(log_dir or get_base_path()))

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.writer.add_scalar(name, value, step)

    def reset(self) -> None:
        self.writer.flush()
