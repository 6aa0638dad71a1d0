"""Reports of slow ranks, and the rented machines that are replaced because of them (docs/guides/large-models.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Cause = Literal["data", "compute"]

# A rented machine is replaced after so many reports within a day. Reports within ten minutes count once.
REPORTS_TO_REPLACE = 3
COUNTED_S = 86_400.0
APART_S = 600.0


@dataclass(frozen=True, slots=True)
class Straggler:
    """A rank that needs more time of its own per step than the median of the other ranks, or has recovered."""

    rank: int
    agent_id: str
    slowdown: float  # 0.2: 20 % more time
    own_s: float
    median_s: float
    cause: Cause
    steps_completed: int
    recovered: bool


def is_slow_machine(reported_at: Sequence[float], now: float) -> bool:
    """Return whether a machine with slow ranks at these times should be replaced."""
    count, last = 0, -APART_S
    for time in sorted(reported_at):
        if time > now - COUNTED_S and time - last >= APART_S:
            count, last = count + 1, time
    return count >= REPORTS_TO_REPLACE


def sentence(straggler: Straggler) -> str:
    where = f" on agent {straggler.agent_id}" if straggler.agent_id else ""
    return (
        f"rank {straggler.rank}{where} is slow: {straggler.own_s * 1000:.1f} ms per step instead of "
        f"{straggler.median_s * 1000:.1f} ms (+{straggler.slowdown:.0%}, mostly {straggler.cause})"
    )
