"""Scalars for each batch of training and each validation report."""

import abc
import math
from typing import Any, Dict, List, Optional


class MetricWriter(abc.ABC):
    """An interface for writing event files."""

    @abc.abstractmethod
    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Write one value."""

    @abc.abstractmethod
    def reset(self) -> None:
        """Make the written values visible to readers."""

    def flush(self) -> None:
        self.reset()


class BatchMetricWriter:
    """Writes scalars named `Determined/<metric>`, which TensorBoard shows as a group."""

    def __init__(self, writer: MetricWriter) -> None:
        self.writer = writer

    def on_train_step_end(
        self,
        steps_completed: int,
        metrics: Dict[str, Any],
        batch_metrics: Optional[List[Dict[str, Any]]] = None,
    ) -> None:
        if batch_metrics:
            first = steps_completed - len(batch_metrics)
            for offset, batch in enumerate(batch_metrics):
                self._add(batch, first + offset, "")
        else:
            self._add(metrics, steps_completed, "")
        self.writer.reset()

    def on_validation_step_end(self, steps_completed: int, metrics: Dict[str, Any]) -> None:
        self._add(metrics, steps_completed, "val_")
        self.writer.reset()

    def _add(self, metrics: Dict[str, Any], step: int, prefix: str) -> None:
        for name, value in metrics.items():
            number = _number(value)
            if number is None:
                continue
            marked = name if name.startswith(prefix) else prefix + name
            self.writer.add_scalar(f"Determined/{marked}", number, step)


def _number(value: Any) -> Optional[float]:
    """Convert a scalar of any library to a number. Return None for values that cannot be plotted."""
    if isinstance(value, (str, bytes, list, tuple, dict)) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
