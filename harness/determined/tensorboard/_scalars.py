"""Scalars of the metrics that the Core API reports, for TensorBoard."""

import importlib.util
import logging
import os
import socket
import struct
import time
from typing import Any, Callable, Dict, List, Optional

from determined.tensorboard._sync import TensorboardSync
from determined.tensorboard.metric_writers._batch import BatchMetricWriter, MetricWriter

logger = logging.getLogger("determined.tensorboard")

# Every flush lets the whole file be uploaded again.
_FLUSH_PERIOD_S = 5.0
_POSITION = ("batches", "epochs")


class EventWriter(MetricWriter):
    """Writes event files with the messages of the tensorboard package.

    Its own writer would import NumPy and its plugins first, half a second of CPU, and a framework's itself, seconds;
    the file's framing is a dozen lines.
    """

    def __init__(self, folder: "os.PathLike[str]") -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2

        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.core"
        self._file = open(os.path.join(folder, name), "wb")  # noqa: SIM115
        self._write(file_version="brain.Event:2")
        self._flush_due = 0.0

    def add_scalar(self, name: str, value: float, step: int) -> None:
        point = self._summary.Value(tag=name, simple_value=value)
        self._write(step=step, summary=self._summary(value=[point]))

    def reset(self) -> None:
        if time.monotonic() >= self._flush_due:
            self._file.flush()
            self._flush_due = time.monotonic() + _FLUSH_PERIOD_S

    def close(self) -> None:
        self._file.close()

    def _write(self, **content: Any) -> None:
        event = self._event(wall_time=time.time(), **content).SerializeToString()
        length = struct.pack("<Q", len(event))
        self._file.write(length + _masked_crc(length) + event + _masked_crc(event))


def _crc_entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


_CRC = tuple(map(_crc_entry, range(256)))


def _masked_crc(content: bytes) -> bytes:
    """Return the CRC-32C of a record as TensorFlow's record files have it."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


class ReportedScalars:
    """Draws what is reported, from the first report on, where the tensorboard package is installed."""

    def __init__(self, tensorboard: TensorboardSync) -> None:
        self._tensorboard = tensorboard
        self._writer: Optional[EventWriter] = None
        self.enabled = True

    def training(
        self,
        steps_completed: int,
        metrics: Dict[str, Any],
        batch_metrics: Optional[List[Dict[str, Any]]],
    ) -> None:
        self._draw(
            lambda drawn: drawn.on_train_step_end(
                steps_completed, _drawable(metrics), batch_metrics
            )
        )

    def validation(self, steps_completed: int, metrics: Dict[str, Any]) -> None:
        self._draw(lambda drawn: drawn.on_validation_step_end(steps_completed, _drawable(metrics)))

    def close(self) -> None:
        writer, self._writer = self._writer, None
        try:
            if writer is not None:
                writer.close()
        except OSError as e:
            logger.warning("the last points of TensorBoard are lost: %s", e)

    def _draw(self, work: Callable[[BatchMetricWriter], None]) -> None:
        """Write to the file; a full disk costs its drawings, not the training."""
        try:
            drawn = self._opened()
            if drawn is not None:
                work(drawn)
        except OSError as e:
            self.enabled = False
            logger.warning("TensorBoard files are written no more: %s", e)

    def _opened(self) -> Optional[BatchMetricWriter]:
        if self._writer is None and self.enabled:
            if importlib.util.find_spec("tensorboard") is None:
                logger.info("the package tensorboard is not installed: its files are not written")
                self.enabled = False
                return None
            self._writer = EventWriter(self._tensorboard.path())
        return BatchMetricWriter(self._writer) if self._writer and self.enabled else None


def _drawable(metrics: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in metrics.items() if name not in _POSITION}
