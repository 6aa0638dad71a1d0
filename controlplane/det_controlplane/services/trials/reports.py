"""What the harness reports of a step."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class MetricsReport:
    trial_id: int
    run_id: int
    group: str
    total_batches: int | None
    metrics: dict[str, Any]
    batch_metrics: list[Any] | None = None
    reported_at: datetime | None = None
    request_key: str | None = None  # the same in each repetition of the report
