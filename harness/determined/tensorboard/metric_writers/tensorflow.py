"""Event files written with TensorFlow's summary writer."""

import os
from typing import Any, Optional, Union

from determined.tensorboard import get_base_path
from determined.tensorboard.metric_writers._batch import MetricWriter


class TFWriter(MetricWriter):
    """A writer for Keras and TensorFlow."""

    def __init__(self, log_dir: "Optional[Union[str, os.PathLike[str]]]" = None) -> None:
        import tensorflow

        self._summary: Any = tensorflow.summary
        self.writer: Any = tensorflow.summary.create_file_writer(
            os.fspath(log_dir or get_base_path())
        )

    def add_scalar(self, name: str, value: float, step: int) -> None:
        with self.writer.as_default():
            self._summary.scalar(name, value, step=step)

    def reset(self) -> None:
        self.writer.flush()
