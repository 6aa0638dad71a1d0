"""Take task logs in batches; read them page by page or follow them (docs/reference/compatibility.md#logs)."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from det_controlplane.core.patterns import (
    LONGEST_LINE,
    MOST_LINES,
    InvalidPattern,
    compiled,
    required_texts,
)
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.logs import log_windows, logs
from det_controlplane.db.logs.log_windows import Filters as Filters
from det_controlplane.db.logs.log_windows import Window
from det_controlplane.db.tasks import containers
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, Oversized
from det_controlplane.services.logs import policies
from det_controlplane.services.searching import LogSearch
from det_controlplane.services.use_case import WEBHOOKS_TOPIC
from det_controlplane.services.webhooks import events

log = logging.getLogger("det.logs")

BATCH = 1000
# How long a log counts as followed after its follower asked for more.
FOLLOWED = timedelta(minutes=2)
SEARCH_S = 2.0
# The ids that one statement looks through, and the texts that it returns.
SPAN, TEXTS = 500_000, 10_000
# How long a follower's page waits for transactions that may store lower ids, and how old such a transaction may be.
SETTLE_S, SETTLE_LOOK_S = 0.1, 0.005
LONGEST_WRITING = timedelta(seconds=10)
LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@dataclass(slots=True)
class Line:
    id: int
    task_id: str
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """Lines that arrived one after another, in order of time."""

    lines: list[Line]
    last_id: int
    full: bool


def store(
    ctx: Context,
    lines: Sequence[dict[str, Any]],
    *,
    batch_id: UUID | None = None,
    request_key: str | None = None,
    sender: str = "",
    agent_id: str | None = None,
) -> None:
    """Store lines once: a batch id, or a key of this sender, that was seen is a repetition."""
    if len(lines) > MOST_LINES:
        raise Oversized(f"{len(lines)} log lines at once: send at most {MOST_LINES} a request")
    rows = [_row(line, agent_id) for line in lines]
    if not rows:
        return
    now = ctx.now()
    by_task: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_task[row["task_id"]].append(row)
    # Before the transaction: it may take a while.
    looks = LogSearch(len(by_task))
    matches = [
        m
        for task, task_lines in by_task.items()
        for m in policies.find(ctx, task, task_lines, looks)
    ]
    triggered = [
        line
        for task, task_lines in by_task.items()
        for line in events.triggered_lines(ctx, task, task_lines, looks)
    ]
    looks.log_unsearched_patterns()
    with ctx.db.begin() as tx:
        if batch_id is not None and not logs.remember_batch(tx, batch_id, now):
            return
        if not logs.remember_request(tx, request_key, sender, now):
            return
        logs.insert(tx, rows, now)
        for dropped in looks.dropped:
            logs.add_line(tx, dropped.task_id, dropped.sentence, now, "WARNING")
        policies.act(tx, matches, now)
        deliveries = sum(events.queue_line_messages(tx, line, now) for line in triggered)
    if deliveries:
        ctx.waker.wake(WEBHOOKS_TOPIC)
    for task_id in by_task:
        ctx.waker.wake(f"logs:{task_id}")


def ship(ctx: Context, lines: Sequence[dict[str, Any]], batch_id: UUID, agent_id: str) -> None:
    """Store an agent's lines for tasks with containers on this agent. Lines of other tasks are left out."""
    task_ids = {str(line.get("task_id") or "") for line in lines}
    own = containers.tasks_of_agent(ctx.db, agent_id, task_ids)
    foreign = task_ids - own
    if foreign:
        log.warning("agent %s sent lines of %d tasks that are not its own", agent_id, len(foreign))
    own_lines = [{**line, "agent_id": agent_id} for line in lines if line.get("task_id") in own]
    store(ctx, own_lines, batch_id=batch_id, agent_id=agent_id)


def _row(line: dict[str, Any], agent_id: str | None) -> dict[str, Any]:
    task_id = line.get("task_id")
    if not task_id:
        raise Invalid("each log line needs a taskId")
    level = str(line.get("level") or "")
    name = level.removeprefix("LOG_LEVEL_").upper()
    return {
        **line,
        "agent_id": line.get("agent_id") or agent_id,
        "level": f"LOG_LEVEL_{name}" if name in LEVELS else None,
        "log": str(line.get("log") or "")[:LONGEST_LINE],
    }


def tasks_of_trial(ctx: Context, trial_id: int) -> list[str]:
    with ctx.db.begin() as tx:
        task_ids = logs.tasks_of_trial(tx, trial_id)
    if not task_ids:
        raise Missing(f"trial {trial_id} not found")
    return task_ids


def ended_at(ctx: Context, task_id: str) -> datetime | None:
    """Return when the task ended; None while it lives."""
    with ctx.db.begin() as tx:
        end = logs.task_end(tx, task_id)
    if end is None:
        raise Missing(f"task '{task_id}' not found")
    return end.ended_at


def follow(ctx: Context, task_id: str) -> None:
    """Ask agents for a while to send the lines of a task at once, where they collect them otherwise."""
    if ctx.host.may_wait_s > 0:
        return
    now = ctx.now()
    with ctx.db.begin() as tx:
        logs.follow(tx, task_id, now + FOLLOWED, now + FOLLOWED / 2)


def are_followed(ctx: Context, allocation_ids: Sequence[str]) -> bool:
    with ctx.db.autocommit() as tx:
        return logs.are_followed(tx, allocation_ids, ctx.now())


def check(filters: Filters) -> None:
    try:
        compiled(filters.search if filters.regex else "")
    except InvalidPattern as e:
        raise Invalid(f"searchText {e}") from e


def page(
    ctx: Context,
    task_id: str,
    filters: Filters,
    *,
    after_id: int,
    descending: bool = False,
    settled: bool = False,
) -> Page:
    """Return the next lines that arrived after (or, descending, before) the line with an id.

    Lines of containers, agents and the cluster take ways of different lengths: they arrive in another order than
    they were written in. A line that comes late is in a later page: a settled one ends before all that may be
    stored with a lower id yet.
    """
    read = _search_texts if filters.regex and filters.search else _read
    rows, last_id, full = read(ctx, task_id, filters, after_id, descending, settled)
    in_time = sorted(rows, key=lambda r: (r.logged_at, r.id), reverse=descending)
    return Page([Line(r.id, r.task_id, _log_json(r)) for r in in_time], last_id, full)


Rows = tuple[Sequence[Any], int, bool]
"""The matching lines in order of arrival, the id of the last checked line, and whether there may be more."""


def _read(
    ctx: Context, task_id: str, filters: Filters, after_id: int, descending: bool, settled: bool
) -> Rows:
    def passing(tx: Tx, window: Window) -> Rows:
        rows = log_windows.page(tx, window, filters, BATCH)
        full = len(rows) == BATCH
        return rows, rows[-1].id if full else window.last, full

    return _search_windows(ctx, task_id, filters, after_id, descending, settled, passing)


def _search_texts(
    ctx: Context, task_id: str, filters: Filters, after_id: int, descending: bool, settled: bool
) -> Rows:
    """Look for an expression in the texts alone, of lines that may have it, and read the lines that do."""
    pattern, parts = compiled(filters.search), required_texts(filters.search)
    candidates = replace(filters, search="", containing=parts)
    until = time.monotonic() + SEARCH_S

    def matching(tx: Tx, window: Window) -> Rows:
        ids: list[int] = []
        texts = log_windows.texts(tx, window, candidates, TEXTS)
        for number, (id, log) in enumerate(texts, 1):
            if pattern.found_in(logs.as_written(log)):
                ids.append(id)
            if len(ids) == BATCH or number == TEXTS or time.monotonic() > until:
                return log_windows.rows(tx, ids, descending), id, True
        return log_windows.rows(tx, ids, descending), window.last, False

    return _search_windows(ctx, task_id, filters, after_id, descending, settled, matching)


def _search_windows(
    ctx: Context,
    task_id: str,
    filters: Filters,
    after_id: int,
    descending: bool,
    settled: bool,
    look: Callable[[Tx, Window], Rows],
) -> Rows:
    """Look at a window after the other until one has a line; for so long only, as clients come and go."""
    until = time.monotonic() + SEARCH_S
    with ctx.db.autocommit() as tx:
        # Read this before all windows, because the windows may miss newer lines.
        edge = log_windows.edge(tx, task_id, descending)
        if settled and edge is not None and edge > after_id and not _is_settled(tx):
            return (), after_id, False
        while edge is not None:
            window = log_windows.window(
                tx, task_id, after_id, edge, descending, SPAN, filters.times
            )
            if window is None:
                break
            rows, after_id, full = look(tx, window)
            unfinished = full or after_id != edge
            if rows or not unfinished or time.monotonic() > until:
                return rows, after_id, unfinished
    return (), after_id, False


def _is_settled(tx: Tx) -> bool:
    """Wait briefly for the transactions that store lines now. Return False if one is still open.

    A line gets its id before its transaction commits, so a lower id may appear after a higher one.
    """
    until = time.monotonic() + SETTLE_S
    storing = log_windows.writers(tx, LONGEST_WRITING)
    while storing and time.monotonic() < until:
        time.sleep(SETTLE_LOOK_S)
        # Allocations that began meanwhile are excluded: the ids of their lines are above the edge.
        storing &= log_windows.writers(tx, LONGEST_WRITING)
    return not storing


def fields(ctx: Context, task_ids: Sequence[str]) -> Any:
    with ctx.db.begin() as tx:
        return log_windows.fields(tx, task_ids)


def _log_json(r: Any) -> dict[str, Any]:
    timestamp = r.logged_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    level = r.level or "LOG_LEVEL_UNSPECIFIED"
    log = logs.as_written(r.log)
    return {
        "id": str(r.id), "taskId": r.task_id, "allocationId": r.allocation_id, "agentId": r.agent_id,
        "containerId": r.container_id, "rankId": r.rank_id, "timestamp": timestamp, "level": level,
        "source": r.source, "stdtype": r.stdtype, "log": log, "message": _message(r, log, timestamp, level),
    }  # fmt: skip


def _message(r: Any, log: str, timestamp: str, level: str) -> str:
    """Return the line as people read it; absent pieces leave no trace but the container's blanks."""
    container = (r.container_id or "")[:8].ljust(8)
    rank = "" if r.rank_id is None else f"[rank={r.rank_id}] "
    prefix = "" if level.endswith("UNSPECIFIED") else f"{level.removeprefix('LOG_LEVEL_')}: "
    end = "" if log.endswith("\n") else "\n"
    return f"[{timestamp}] {container} {rank}|| {prefix}{log}{end}"
