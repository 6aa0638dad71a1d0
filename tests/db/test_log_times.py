"""Lines of a time are found in a long log without reading the lines before them."""

import itertools
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.db.logs import log_windows
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import actions, creation
from det_controlplane.services.logs import retention, task_logs
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE

BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
SPAN = 1 << log_windows.SPAN_BITS
_STORE = text("""
    INSERT INTO task_logs (id, task_id, logged_at, log) OVERRIDING SYSTEM VALUE
    SELECT id, task, at, id::text
    FROM json_to_recordset(cast(:lines AS json)) AS x (id bigint, task text, at timestamptz)
""")
_SPANS = text("SELECT span, first_at, last_at FROM task_log_spans WHERE task_id = :task")

Lines = dict[int, datetime]


@pytest.fixture
def task_id(ctx: Context) -> str:
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    with ctx.db.begin() as tx:
        task: str = tx.execute(text("SELECT id FROM tasks")).scalar_one()
        tx.execute(text("DELETE FROM task_logs"))
        tx.execute(text("DELETE FROM task_log_spans"))
    return task


def store(ctx: Context, task_id: str, lines: Lines) -> None:
    rows = [{"id": id, "task": task_id, "at": at.isoformat()} for id, at in lines.items()]
    with ctx.db.begin() as tx:
        tx.execute(_STORE, {"lines": json.dumps(rows)})


def read(
    ctx: Context, task_id: str, filters: log_windows.Filters, *, descending: bool
) -> list[int]:
    lines, last, full = [], 0, True
    while full:
        page = task_logs.page(ctx, task_id, filters, after_id=last, descending=descending)
        lines += [line.id for line in page.lines]
        last, full = page.last_id, page.full
    return lines


@contextmanager
def windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[log_windows.Window]]:
    """Return the windows that are read."""
    windows_read: list[log_windows.Window] = []
    page: Callable[..., Any] = log_windows.page

    def looked_at(tx: Any, window: log_windows.Window, *more: Any) -> Any:
        windows_read.append(window)
        return page(tx, window, *more)

    with monkeypatch.context() as patched:
        patched.setattr(log_windows, "page", looked_at)
        yield windows_read


@pytest.mark.parametrize("descending", [False, True])
def test_reads_only_log_spans_of_the_requested_time(
    ctx: Context, task_id: str, monkeypatch: pytest.MonkeyPatch, descending: bool
) -> None:
    """Each span of ids has a line every ten minutes, of an hour."""
    every = itertools.product(range(1, 40), range(6))
    lines = {s * SPAN + n: BEGAN + timedelta(hours=s, minutes=10 * n) for s, n in every}
    store(ctx, task_id, lines)
    middle = BEGAN + timedelta(hours=20, minutes=25)
    within = middle + timedelta(minutes=30)
    with windows(monkeypatch) as windows_read:
        filters = log_windows.Filters(after=middle, before=within)
        expected = [20 * SPAN + n for n in (3, 4, 5)]
        assert read(ctx, task_id, filters, descending=descending) == sorted(
            expected, reverse=descending
        )
    assert [min(w.first, w.last) >> log_windows.SPAN_BITS for w in windows_read] == [20]


@pytest.mark.parametrize("seed", range(5))
def test_finds_all_log_lines_of_a_time_in_any_order(ctx: Context, task_id: str, seed: int) -> None:
    """Clocks differ, and agents that were cut off send lines of hours ago."""
    rng = random.Random(seed)
    times = [BEGAN + timedelta(seconds=rng.choice((n, rng.randrange(9000)))) for n in range(300)]
    ids = rng.sample(range(1, 12 * SPAN), 300)
    lines = dict(zip(sorted(ids), times, strict=True))
    batches = list(lines.items())
    for begin in range(0, 300, 20):
        store(ctx, task_id, dict(batches[begin : begin + 20]))
    for after, before in [(None, 4000), (2000, None), (2000, 2100), (8999, None), (None, 1)]:
        low = None if after is None else BEGAN + timedelta(seconds=after)
        high = None if before is None else BEGAN + timedelta(seconds=before)
        expected = {
            id for id, at in lines.items()
            if (low is None or at > low) and (high is None or at < high)
        }  # fmt: skip
        for descending in (False, True):
            matching_lines = read(
                ctx, task_id, log_windows.Filters(after=low, before=high), descending=descending
            )
            assert len(matching_lines) == len(expected)
            assert set(matching_lines) == expected


def spans(ctx: Context, task_id: str) -> list[tuple[int, datetime, datetime]]:
    with ctx.db.begin() as tx:
        return [tuple(row) for row in tx.execute(_SPANS, {"task": task_id})]


def test_log_lines_of_one_minute_share_a_span(ctx: Context, task_id: str) -> None:
    for second in range(1, 50):
        store(ctx, task_id, {second: BEGAN + timedelta(seconds=second)})
    assert spans(ctx, task_id) == [(0, BEGAN, BEGAN + timedelta(minutes=1))]


def test_log_span_is_deleted_with_its_last_line(
    ctx: Context, task_id: str, clock: list[datetime]
) -> None:
    store(ctx, task_id, {1: BEGAN})
    actions.command(ctx, 1, Command.KILL)
    with ctx.db.begin() as tx:
        tx.execute(text("UPDATE tasks SET ended_at = :now"), {"now": ctx.now()})
        tx.execute(text("UPDATE experiments SET log_retention_days = 3"))
    retention.delete_old(ctx)
    assert spans(ctx, task_id)
    clock[0] += timedelta(days=4)
    assert retention.delete_old(ctx) > 0
    assert spans(ctx, task_id) == []
