"""Task logs as they are read: a window of ids after the other, with the lines in it that pass filters."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Row,
    Select,
    any_,
    func,
    literal,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema import task_log_spans, task_logs

# A writer locks the relation before it takes its first id and releases the lock after its rows are visible.
_WRITERS = text("""
    SELECT l.virtualtransaction FROM pg_locks l JOIN pg_stat_activity s ON s.pid = l.pid
    WHERE l.locktype = 'relation' AND l.relation = cast('task_logs' AS regclass) AND l.mode = 'RowExclusiveLock' AND l.granted
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND s.xact_start > clock_timestamp() - cast(:longest AS interval)
""")
_FIELDS = text("""
    SELECT json_build_object('allocationIds', coalesce(json_agg(DISTINCT allocation_id) FILTER (WHERE allocation_id IS NOT NULL), '[]'),
        'agentIds', coalesce(json_agg(DISTINCT agent_id) FILTER (WHERE agent_id IS NOT NULL), '[]'),
        'containerIds', coalesce(json_agg(DISTINCT container_id) FILTER (WHERE container_id IS NOT NULL), '[]'),
        'rankIds', coalesce(json_agg(DISTINCT rank_id) FILTER (WHERE rank_id IS NOT NULL), '[]'),
        'stdtypes', coalesce(json_agg(DISTINCT stdtype) FILTER (WHERE stdtype IS NOT NULL), '[]'),
        'sources', coalesce(json_agg(DISTINCT source) FILTER (WHERE source IS NOT NULL), '[]'))
    FROM task_logs WHERE task_id = ANY(cast(:task_ids AS text[]))
""")
_LIKE_SPECIAL, _ESCAPED = re.compile(r"[\\%_]"), r"\\\g<0>"

# A trigger of `task_logs` covers each line by a row of a span of ids, in whole minutes, so that one row serves many
# batches. Rows are only added: writers never wait for each other. The trigger has this number, too (migration 0119).
SPAN_BITS = 16

_FORGET_OF_TASKS = text("DELETE FROM task_log_spans WHERE task_id = ANY(cast(:ids AS text[]))")


@dataclass(frozen=True, slots=True)
class Times:
    """The times between which lines are read, both exclusive."""

    after: datetime | None
    before: datetime | None

    @property
    def are_bounded(self) -> bool:
        return self.after is not None or self.before is not None


def _next_ids_of_span(
    tx: Tx, task_id: str, after_id: int, descending: bool, times: Times
) -> tuple[int, int] | None:
    """Return the first and last id of the next span that may have lines of these times; None if none has.

    Reading by time skips the other spans."""
    c = task_log_spans.c
    query = select(func.max(c.span) if descending else func.min(c.span))
    query = query.where(c.task_id == task_id)
    if after_id:
        query = query.where(
            c.span <= (after_id - 1) >> SPAN_BITS
            if descending
            else c.span >= (after_id + 1) >> SPAN_BITS
        )
    if times.after is not None:
        query = query.where(c.last_at > times.after)
    if times.before is not None:
        query = query.where(c.first_at < times.before)
    span: int | None = tx.execute(query).scalar()
    return None if span is None else (span << SPAN_BITS, ((span + 1) << SPAN_BITS) - 1)


def forget_spans(tx: Tx, task_ids: list[str]) -> None:
    """Delete the spans of tasks without lines."""
    tx.execute(_FORGET_OF_TASKS, {"ids": task_ids})


@dataclass(frozen=True, slots=True)
class Filters:
    """Values of one field are alternatives; different fields narrow each other."""

    allocation_ids: Sequence[str] = ()
    agent_ids: Sequence[str] = ()
    container_ids: Sequence[str] = ()
    rank_ids: Sequence[int] = ()
    levels: Sequence[str] = ()
    stdtypes: Sequence[str] = ()
    sources: Sequence[str] = ()
    before: datetime | None = None
    after: datetime | None = None
    search: str = ""
    regex: bool = False  # `search` is not a pattern of PostgreSQL; callers apply it
    containing: Sequence[str] = ()  # texts that a line has all of

    @property
    def times(self) -> Times:
        return Times(self.after, self.before)

    def conditions(self) -> list[ColumnElement[bool]]:
        c = task_logs.c
        lists = (
            (c.allocation_id, self.allocation_ids), (c.agent_id, self.agent_ids),
            (c.container_id, self.container_ids), (c.stdtype, self.stdtypes), (c.source, self.sources),
        )  # fmt: skip
        where: list[ColumnElement[bool]] = [
            column.in_(values) for column, values in lists if values
        ]
        if self.levels:
            of_level = c.level.in_(self.levels)
            unspecified = "LOG_LEVEL_UNSPECIFIED" in self.levels
            where.append(or_(of_level, c.level.is_(None)) if unspecified else of_level)
        if self.rank_ids:
            of_rank = c.rank_id.in_(self.rank_ids)
            where.append(or_(of_rank, c.rank_id.is_(None)) if -1 in self.rank_ids else of_rank)
        if self.before is not None:
            where.append(c.logged_at < self.before)
        if self.after is not None:
            where.append(c.logged_at > self.after)
        if self.search:
            where.append(c.log.ilike(_anywhere(self.search)))
        return [*where, *(c.log.like(_anywhere(part)) for part in self.containing)]


def _anywhere(part: str) -> str:
    """Return the pattern of LIKE that finds a text as it is."""
    return f"%{_LIKE_SPECIAL.sub(_ESCAPED, part)}%"


@dataclass(frozen=True, slots=True)
class Window:
    """The lines of a task with ids from one to another; the newest first where it is descending."""

    task_id: str
    first: int
    last: int
    descending: bool

    def lines(self, filters: Filters, *columns: Any) -> Select[Any]:
        c = task_logs.c
        within = c.id.between(min(self.first, self.last), max(self.first, self.last))
        query = select(*columns).where(c.task_id == self.task_id, within, *filters.conditions())
        return query.order_by(c.id.desc() if self.descending else c.id)


def edge(tx: Tx, task_id: str, descending: bool) -> int | None:
    """Return the id of a task's newest line or, descending, of its oldest; None without any."""
    c = task_logs.c
    ids = select(c.id).where(c.task_id == task_id).order_by(c.id if descending else c.id.desc())
    return tx.execute(ids.limit(1)).scalar()


def writers(tx: Tx, longest: timedelta) -> set[str]:
    """Return the transactions, none older than `longest`, that store lines now: they may have ids below the newest."""
    return set(tx.execute(_WRITERS, {"longest": longest}).scalars())


def window(
    tx: Tx, task_id: str, after_id: int, edge: int, descending: bool, span: int, times: Times
) -> Window | None:
    """Return the next window after (or, descending, before) an id, of so many ids at most, up to an edge."""
    if times.are_bounded:
        ids = _next_ids_of_span(tx, task_id, after_id, descending, times)
    else:
        ids = _ids_from(tx, task_id, after_id, descending, span)
    if ids is None:
        return None
    lowest, highest = ids
    if descending:
        first, last = min(highest, after_id - 1) if after_id else highest, max(lowest, edge)
    else:
        first, last = max(lowest, after_id + 1), min(highest, edge)
    # Lines that were stored after the edge was read are excluded.
    if first < last if descending else first > last:
        return None
    return Window(task_id, first, last, descending)


def _ids_from(
    tx: Tx, task_id: str, after_id: int, descending: bool, span: int
) -> tuple[int, int] | None:
    """Return the lowest and highest of a number of ids, starting with the id of the task's next line."""
    c = task_logs.c
    ids = select(c.id).where(c.task_id == task_id)
    if after_id:
        ids = ids.where(c.id < after_id if descending else c.id > after_id)
    first: int | None = tx.execute(
        ids.order_by(c.id.desc() if descending else c.id).limit(1)
    ).scalar()
    if first is None:
        return None
    return (first - span + 1, first) if descending else (first, first + span - 1)


def page(tx: Tx, window: Window, filters: Filters, limit: int) -> Sequence[Row[Any]]:
    """Return the first lines of a window that pass the filters."""
    return tx.execute(window.lines(filters, task_logs).limit(limit)).all()


def texts(tx: Tx, window: Window, filters: Filters, limit: int) -> list[tuple[int, str]]:
    """Return the ids and texts of the lines. They are read as one JSON value, because separate rows cost more."""
    lines = window.lines(filters, task_logs.c.id, task_logs.c.log).limit(limit).subquery()
    pair = func.json_build_array(lines.c.id, lines.c.log)
    order = lines.c.id.desc() if window.descending else lines.c.id
    every = select(func.json_agg(aggregate_order_by(pair, order)))
    return [(id, log) for id, log in tx.execute(every).scalar() or ()]


def rows(tx: Tx, ids: Sequence[int], descending: bool) -> Sequence[Row[Any]]:
    """Return the lines with these ids."""
    if not ids:
        return ()
    c = task_logs.c
    these = select(task_logs).where(c.id == any_(literal(list(ids), ARRAY(BigInteger))))
    return tx.execute(these.order_by(c.id.desc() if descending else c.id)).all()


def fields(tx: Tx, task_ids: Sequence[str]) -> Any:
    """Return the values that each field has in the lines of tasks, as JSON."""
    return tx.execute(_FIELDS, {"task_ids": list(task_ids)}).scalar()
