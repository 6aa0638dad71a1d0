"""Find the spans of ids in which a task has lines of a time, so that reading by time skips the others.

A trigger of `task_logs` covers each line by a row, in whole minutes, so that one row serves many batches. Rows are only
added: writers never wait for each other.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, text

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema import task_log_spans

# The trigger has it, too (migration 0119).
BITS = 16

_FORGET_OF_TASKS = text("DELETE FROM task_log_spans WHERE task_id = ANY(cast(:ids AS text[]))")


@dataclass(frozen=True, slots=True)
class Times:
    """The times between which lines are read, both exclusive."""

    after: datetime | None
    before: datetime | None

    @property
    def are_bounded(self) -> bool:
        return self.after is not None or self.before is not None


def next_ids(
    tx: Tx, task_id: str, after_id: int, descending: bool, times: Times
) -> tuple[int, int] | None:
    """Return the first and last id of the next span that may have lines of these times; None if none has."""
    c = task_log_spans.c
    query = select(func.max(c.span) if descending else func.min(c.span))
    query = query.where(c.task_id == task_id)
    if after_id:
        query = query.where(
            c.span <= (after_id - 1) >> BITS if descending else c.span >= (after_id + 1) >> BITS
        )
    if times.after is not None:
        query = query.where(c.last_at > times.after)
    if times.before is not None:
        query = query.where(c.first_at < times.before)
    span: int | None = tx.execute(query).scalar()
    return None if span is None else (span << BITS, ((span + 1) << BITS) - 1)


def forget(tx: Tx, task_ids: list[str]) -> None:
    """Delete the spans of tasks without lines."""
    tx.execute(_FORGET_OF_TASKS, {"ids": task_ids})
