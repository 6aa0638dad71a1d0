"""Metrics as TensorBoard scalars, if the tensorboard package is there."""

import importlib.util
import logging
import time
from typing import Any, Dict, List, Tuple

logger = logging.getLogger("determined.pytorch")

# Flushing waits for the writer's thread, and lets the whole file be uploaded again.
_FLUSH_PERIOD_S = 5.0


class ScalarLog:
    """Writes one point a report: a point a batch would cost more than many a batch itself.

    Points wait for the next flush. Given one by one, each would wake the writer's thread.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        reported = getattr(context._core.train, "_scalars", None)
        if reported is not None:
            # The same points would be drawn twice, and the context can switch these off.
            reported.enabled = False
        wanted = context.get_enable_tensorboard_logging() and context.distributed.rank == 0
        self._available = wanted and importlib.util.find_spec("tensorboard") is not None
        if wanted and not self._available:
            logger.info(
                "the package tensorboard is not installed: no TensorBoard files are written"
            )
        self._waiting: List[Tuple[str, float, int, float]] = []
        self._flush_due = 0.0

    def write(self, metrics: Dict[str, Any], steps_completed: int) -> None:
        if not (self._available and self._context.get_enable_tensorboard_logging()):
            return
        now = time.time()
        for name, value in metrics.items():
            if isinstance(value, (int, float)) and name not in ("batches", "epochs"):
                self._waiting.append((f"Determined/{name}", value, steps_completed, now))
        if time.monotonic() >= self._flush_due:
            self.flush()

    def flush(self) -> None:
        """Write the points that wait, so that readers see them now."""
        if self._waiting:
            writer = self._context.get_tensorboard_writer()
            for point in self._waiting:
                writer.add_scalar(*point)
            self._waiting = []
        if self._context._tensorboard_writer is not None:
            self._context._tensorboard_writer.flush()
        self._flush_due = time.monotonic() + _FLUSH_PERIOD_S
