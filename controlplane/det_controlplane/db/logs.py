"""Task logs: stored in batches, read by cursor, deleted by age; the log policies of their trials."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

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
    update,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by

from det_controlplane.db import log_spans
from det_controlplane.db.engine import Tx
from det_controlplane.db.log_spans import Times
from det_controlplane.db.schema import experiments, task_logs, tasks, trials
from det_controlplane.db.views import TASK_NAME

_INSERT = text("""
    INSERT INTO task_logs (task_id, allocation_id, agent_id, container_id, rank_id, logged_at, level, source, stdtype, log)
    SELECT x.task_id, x.allocation_id, x.agent_id, x.container_id, x.rank_id, coalesce(x.timestamp, :now), x.level,
           x.source, x.stdtype, x.log
    FROM json_to_recordset(cast(:rows AS json)) AS x (task_id text, allocation_id text, agent_id text,
         container_id text, rank_id integer, timestamp timestamptz, level text, source text, stdtype text, log text)
""")
_REMEMBER = text("""
    INSERT INTO log_batches (batch_id, stored_at) VALUES (:id, :now) ON CONFLICT DO NOTHING
""")
_FORGET = text("DELETE FROM log_batches WHERE stored_at < :before")
_LINE = text("""
    INSERT INTO task_logs (task_id, logged_at, level, source, log) VALUES (:task_id, :now, :level, 'master', :log)
""")
# Between the words that stand before the task's name and those after it.
_NAMED = text(f"""
    INSERT INTO task_logs (task_id, logged_at, level, source, log)
    SELECT k.id, :now, x.level, 'master', concat(x.before, {TASK_NAME}, x.after)
    FROM ROWS FROM (jsonb_to_recordset(cast(:rows AS jsonb)) AS (task_id text, level text, before text, after text))
        WITH ORDINALITY AS x (task_id, level, before, after, place)
    JOIN tasks k ON k.id = x.task_id JOIN jobs j ON j.id = k.job_id ORDER BY x.place
""")

_FOLLOW = text("""
    UPDATE tasks SET logs_followed_until = :until
    WHERE id = :task_id AND coalesce(logs_followed_until, '-infinity') < :stale
""")
_FOLLOWED = text("""
    SELECT EXISTS (SELECT 1 FROM allocations a JOIN tasks k ON k.id = a.task_id
                   WHERE a.id = ANY(cast(:allocation_ids AS text[])) AND k.logs_followed_until > :now)
""")
# The relation's lock is taken before the first id, and released after what was stored can be seen.
_WRITERS = text("""
    SELECT l.virtualtransaction FROM pg_locks l JOIN pg_stat_activity s ON s.pid = l.pid
    WHERE l.locktype = 'relation' AND l.relation = cast('task_logs' AS regclass) AND l.mode = 'RowExclusiveLock' AND l.granted
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND s.xact_start > clock_timestamp() - cast(:longest AS interval)
""")

# Stands for NUL in stored lines: a code point that Unicode keeps free for such uses inside of programs.
_NUL = "\ufdd0"


def insert(tx: Tx, rows: Sequence[dict[str, Any]], now: datetime) -> None:
    # What is absent is NULL; other fields are none of the table's.
    rows = [{k: v for k, v in row.items() if v is not None} for row in rows]
    dumped = json.dumps(rows)
    if "\\u0000" in dumped or "\\ud" in dumped:
        dumped = json.dumps([{k: _storable(v) for k, v in row.items()} for row in rows])
    tx.execute(_INSERT, {"rows": dumped, "now": now})


def follow(tx: Tx, task_id: str, until: datetime, stale: datetime) -> None:
    """Remember that a log is followed until a time, unless a time after `stale` is known."""
    tx.execute(_FOLLOW, {"task_id": task_id, "until": until, "stale": stale})


def are_followed(tx: Tx, allocation_ids: Sequence[str], now: datetime) -> bool:
    """Return whether the log of one of some allocations is followed now."""
    values = {"allocation_ids": list(allocation_ids), "now": now}
    return bool(tx.execute(_FOLLOWED, values).scalar())


def _storable(value: Any) -> Any:
    """Return what PostgreSQL can store: neither NUL nor half of a surrogate pair, and programs print both."""
    if not isinstance(value, str):
        return value
    whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", _NUL)


def as_written(stored: str) -> str:
    """Return the text of a line as its program wrote it."""
    return stored.replace(_NUL, "\0")


def remember_batch(tx: Tx, batch_id: UUID, now: datetime) -> bool:
    """Remember a batch; return False when it was stored before."""
    return tx.execute(_REMEMBER, {"id": batch_id, "now": now}).rowcount == 1


def remember_request(tx: Tx, key: str | None, sender: str, now: datetime) -> bool:
    """Return False when a request with this Idempotency-Key was stored before; requests without one are always new."""
    return key is None or remember_batch(tx, uuid5(NAMESPACE_OID, f"{sender} {key}"), now)


def forget_batches(tx: Tx, before: datetime) -> int:
    return tx.execute(_FORGET, {"before": before}).rowcount


def add_line(tx: Tx, task_id: str, line: str, now: datetime, level: str = "INFO") -> None:
    """Add a line of the control plane's own."""
    told = {"task_id": task_id, "log": line, "now": now, "level": f"LOG_LEVEL_{level}"}
    tx.execute(_LINE, told)


@dataclass(frozen=True, slots=True)
class NamedLine:
    """A line about a task, which calls it by its name, between what stands before and after that."""

    task_id: str
    after: str
    before: str = ""
    level: str = "LOG_LEVEL_INFO"


def add_named_lines(tx: Tx, lines: Sequence[NamedLine], now: datetime) -> None:
    """Store lines of the control plane's own, in their order."""
    rows = json.dumps([asdict(line) for line in lines])
    tx.execute(_NAMED, {"rows": rows, "now": now})


_FIELDS = text("""
    SELECT json_build_object('allocationIds', coalesce(json_agg(DISTINCT allocation_id) FILTER (WHERE allocation_id IS NOT NULL), '[]'),
        'agentIds', coalesce(json_agg(DISTINCT agent_id) FILTER (WHERE agent_id IS NOT NULL), '[]'),
        'containerIds', coalesce(json_agg(DISTINCT container_id) FILTER (WHERE container_id IS NOT NULL), '[]'),
        'rankIds', coalesce(json_agg(DISTINCT rank_id) FILTER (WHERE rank_id IS NOT NULL), '[]'),
        'stdtypes', coalesce(json_agg(DISTINCT stdtype) FILTER (WHERE stdtype IS NOT NULL), '[]'),
        'sources', coalesce(json_agg(DISTINCT source) FILTER (WHERE source IS NOT NULL), '[]'))
    FROM task_logs WHERE task_id = :task_id
""")


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
    regex: bool = False  # `search` is none of PostgreSQL's patterns: callers look for it

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
            ranked = c.rank_id.in_(self.rank_ids)
            where.append(or_(ranked, c.rank_id.is_(None)) if -1 in self.rank_ids else ranked)
        if self.before is not None:
            where.append(c.logged_at < self.before)
        if self.after is not None:
            where.append(c.logged_at > self.after)
        if self.search:
            where.append(c.log.icontains(self.search))
        return where


@dataclass(frozen=True, slots=True)
class LogPolicies:
    """The log policies of a trial that still runs."""

    trial_id: int
    policies: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class TaskEnd:
    ended_at: datetime | None


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
        found = select(*columns).where(c.task_id == self.task_id, within, *filters.conditions())
        return found.order_by(c.id.desc() if self.descending else c.id)


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
        found = log_spans.next_ids(tx, task_id, after_id, descending, times)
    else:
        found = _ids_from(tx, task_id, after_id, descending, span)
    if found is None:
        return None
    lowest, highest = found
    if descending:
        first, last = min(highest, after_id - 1) if after_id else highest, max(lowest, edge)
    else:
        first, last = max(lowest, after_id + 1), min(highest, edge)
    # A line that was stored after the edge was read is none of this window's.
    if first < last if descending else first > last:
        return None
    return Window(task_id, first, last, descending)


def _ids_from(
    tx: Tx, task_id: str, after_id: int, descending: bool, span: int
) -> tuple[int, int] | None:
    """Return the lowest and highest of so many ids, beginning with that of the task's next line."""
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
    """Return ids and texts of those lines, as one value: rows cost more than their text."""
    found = window.lines(filters, task_logs.c.id, task_logs.c.log).limit(limit).subquery()
    pair = func.json_build_array(found.c.id, found.c.log)
    order = found.c.id.desc() if window.descending else found.c.id
    every = select(func.json_agg(aggregate_order_by(pair, order)))
    return [(id, log) for id, log in tx.execute(every).scalar() or ()]


def rows(tx: Tx, ids: Sequence[int], descending: bool) -> Sequence[Row[Any]]:
    """Return the lines with these ids."""
    if not ids:
        return ()
    c = task_logs.c
    these = select(task_logs).where(c.id == any_(literal(list(ids), ARRAY(BigInteger))))
    return tx.execute(these.order_by(c.id.desc() if descending else c.id)).all()


def fields(tx: Tx, task_id: str) -> Any:
    """Return the values that each field has in a task's lines, as JSON."""
    return tx.execute(_FIELDS, {"task_id": task_id}).scalar()


def tasks_of_trial(tx: Tx, trial_id: int) -> list[str]:
    of_trial = select(tasks.c.id).where(tasks.c.trial_id == trial_id)
    return list(tx.execute(of_trial.order_by(tasks.c.started_at, tasks.c.id)).scalars())


def task_end(tx: Tx, task_id: str) -> TaskEnd | None:
    row = tx.execute(select(tasks.c.ended_at).where(tasks.c.id == task_id)).first()
    return None if row is None else TaskEnd(*row)


def policies(tx: Tx, task_id: str) -> LogPolicies | None:
    """Return the log policies of the task's trial; None without any, or when the trial has ended."""
    found = experiments.c.config["log_policies"]
    of_task = (
        select(trials.c.id, found).select_from(tasks).join(trials, trials.c.id == tasks.c.trial_id)
    )
    row = tx.execute(
        of_task.join(experiments, experiments.c.id == trials.c.experiment_id).where(
            tasks.c.id == task_id, trials.c.ended_at.is_(None), func.json_array_length(found) > 0
        )
    ).first()
    return None if row is None else LogPolicies(*row)


def cancel_retries(tx: Tx, trial_id: int, policy: str) -> bool:
    """Return False where a policy had matched before."""
    unmatched = (trials.c.id == trial_id) & trials.c.log_policy_matched.is_(None)
    matched = update(trials).where(unmatched).values(log_policy_matched=policy)
    return tx.execute(matched).rowcount == 1


def exclude_agent(tx: Tx, trial_id: int, agent_id: str) -> bool:
    """Return False where the agent was excluded before."""
    blocked = trials.c.blocked_agents
    new = (trials.c.id == trial_id) & ~(literal(agent_id) == any_(blocked))
    excluded = update(trials).where(new).values(blocked_agents=func.array_append(blocked, agent_id))
    return tx.execute(excluded).rowcount == 1
