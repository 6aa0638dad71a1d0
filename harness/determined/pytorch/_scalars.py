"""Metrics as TensorBoard scalars."""

import importlib.util
import time
from typing import Any, Dict, List, Optional, Tuple

from determined.tensorboard._scalars import EventWriter

# A flush waits for the writer's thread and causes an upload of the whole file.
_FLUSH_PERIOD_S = 5.0


class ScalarLog:
    """Writes one point for each report, because a point for each batch could take longer than the batch.

    Points are collected until the next flush. Passed one by one, each of them would wake the writer's thread.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        reported = getattr(context._core.train, "_scalars", None)
        if reported is not None:
            # Otherwise the same points would be written twice, and the context could not disable them.
            reported.enabled = False
        self._is_enabled = (
            context.get_enable_tensorboard_logging() and context.distributed.rank == 0
        )
        # With the tensorboard package, these points share a file with the user's own points.
        self._own_writer: Optional[EventWriter] = None
        self._has_package = importlib.util.find_spec("tensorboard") is not None
        self._waiting: List[Tuple[str, float, int, float]] = []
        self._flush_due = 0.0

    def write(self, metrics: Dict[str, Any], steps_completed: int) -> None:
        if not (self._is_enabled and self._context.get_enable_tensorboard_logging()):
            return
        now = time.time()
        for name, value in metrics.items():
            if isinstance(value, (int, float)) and name not in ("batches", "epochs"):
                self._waiting.append((f"Determined/{name}", value, steps_completed, now))
        if time.monotonic() >= self._flush_due:
            self.flush()

    def flush(self) -> None:
        """Write the collected points, so that readers see them now."""
        if self._waiting:
            writer = self._writer()
            for point in self._waiting:
                writer.add_scalar(*point)
            self._waiting = []
        if self._context._tensorboard_writer is not None:
            self._context._tensorboard_writer.flush()
        if self._own_writer is not None:
            self._own_writer.flush()
        self._flush_due = time.monotonic() + _FLUSH_PERIOD_S

    def close(self) -> None:
        """Write the collected points. The context closes its own writer."""
        self.flush()
        if self._own_writer is not None:
            self._own_writer.close()
            self._own_writer = None

    def _writer(self) -> Any:
        if self._has_package:
            return self._context.get_tensorboard_writer()
        if self._own_writer is None:
            self._own_writer = EventWriter(self._context.get_tensorboard_path())
        return self._own_writer
