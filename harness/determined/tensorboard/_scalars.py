"""TensorBoard scalars of the metrics that are reported through the Core API."""

import logging
import math
import os
import socket
import struct
import time
from typing import Any, Callable, Dict, List, Optional

from determined.tensorboard._sync import TensorboardSync
from determined.tensorboard.metric_writers._batch import BatchMetricWriter, MetricWriter

logger = logging.getLogger("determined.tensorboard")

# Every flush causes an upload of the whole file.
_FLUSH_PERIOD_S = 5.0
_POSITION = ("batches", "epochs")


class EventWriter(MetricWriter):
    """Writes event files without the tensorboard package, which many images lack.

    Importing that package or a framework's writer takes at least half a second of CPU time. An event is a small
    Protocol Buffers message, and the file's framing needs only a dozen lines.
    """

    def __init__(self, folder: "os.PathLike[str]") -> None:
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.core"
        self._file = open(os.path.join(folder, name), "wb")  # noqa: SIM115
        self._write(time.time(), _text(3, "brain.Event:2"))
        self._flush_due = 0.0

    def add_scalar(
        self, name: str, value: float, step: int, wall_time: Optional[float] = None
    ) -> None:
        point = _text(1, name) + _key(2, _FIXED32) + struct.pack("<f", _as_float32(value))
        when = time.time() if wall_time is None else wall_time
        self._write(when, _key(2, _VARINT) + _varint(step) + _message(5, _message(1, point)))

    def reset(self) -> None:
        if time.monotonic() >= self._flush_due:
            self._file.flush()
            self._flush_due = time.monotonic() + _FLUSH_PERIOD_S

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _write(self, wall_time: float, content: bytes) -> None:
        event = _key(1, _FIXED64) + struct.pack("<d", wall_time) + content
        length = struct.pack("<Q", len(event))
        self._file.write(length + _masked_crc(length) + event + _masked_crc(event))


# In Protocol Buffers a field is its number and wire type, then its value. The field numbers come from TensorFlow's
# event.proto and summary.proto.
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF  # negative numbers are written as 64 bits
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _message(field: int, content: bytes) -> bytes:
    return _key(field, _LENGTH) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode("utf-8", "replace"))


def _as_float32(value: float) -> float:
    """Return the number, or an infinity if it is too large for 32 bits."""
    return (
        value if abs(value) <= _MOST_FLOAT32 or value != value else math.copysign(math.inf, value)
    )


_MOST_FLOAT32 = 3.4028234663852886e38


def _crc_entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


_CRC = tuple(map(_crc_entry, range(256)))


def _masked_crc(content: bytes) -> bytes:
    """Return the masked CRC-32C of a record, as in TensorFlow's record files."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


class ReportedScalars:
    """Writes the reported metrics as scalars. The file is created at the first report."""

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
        self._write_points(
            lambda writer: writer.on_train_step_end(
                steps_completed, _without_position(metrics), batch_metrics
            )
        )

    def validation(self, steps_completed: int, metrics: Dict[str, Any]) -> None:
        self._write_points(
            lambda writer: writer.on_validation_step_end(
                steps_completed, _without_position(metrics)
            )
        )

    def close(self) -> None:
        writer, self._writer = self._writer, None
        try:
            if writer is not None:
                writer.close()
        except OSError as e:
            logger.warning("the last TensorBoard points are lost: %s", e)

    def _write_points(self, work: Callable[[BatchMetricWriter], None]) -> None:
        """Write to the file. A full disk stops the TensorBoard file, but not the training."""
        try:
            writer = self._open_writer()
            if writer is not None:
                work(writer)
        except OSError as e:
            self.enabled = False
            logger.warning("no more TensorBoard files are written: %s", e)

    def _open_writer(self) -> Optional[BatchMetricWriter]:
        if self._writer is None and self.enabled:
            self._writer = EventWriter(self._tensorboard.path())
        return BatchMetricWriter(self._writer) if self._writer and self.enabled else None


def _without_position(metrics: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in metrics.items() if name not in _POSITION}
