"""Reports that read sums of closed days give the same figures as reports that read all rows."""

import json
import random
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from det_controlplane.core.money.budget import BudgetScope
from det_controlplane.db.engine.database import Database
from det_controlplane.db.money import closed_days as day_rows
from det_controlplane.db.money import costs, usage
from det_controlplane.db.money.costs import Span
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from det_controlplane.services.maintenance import tick
from det_controlplane.services.money.costs import sum_ended_days
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, context

NOW = datetime(2026, 5, 20, 15, 30, tzinfo=timezone.utc)
LAST = NOW.replace(hour=0, minute=0)
FIRST = LAST - timedelta(days=20)
RUNS = 60
SCOPES = {
    BudgetScope.USER: str(OWNER.id),
    BudgetScope.WORKSPACE: "1",
    BudgetScope.POOL: "default",
}
_ALLOCATION = text("""
    INSERT INTO allocations (id, task_id, job_id, run_id, pool, slots, state, preemptible, requested_at, assigned_at,
        started_at, ended_at, workspace_name)
    SELECT :id, k.id, k.job_id, :run, :pool, :slots, cast(:state AS allocation_state), true, :start, :start, :start,
        :end, 'w'
    FROM tasks k WHERE k.experiment_id = :experiment
""")
_CONTAINER = text("""
    INSERT INTO containers (id, allocation_id, agent_id, epoch, rank, slot_ids, state, assigned_at, started_at,
        ended_at)
    VALUES (gen_random_uuid(), :id, :agent, 1, 0, cast(:held AS integer[]), cast(:state AS container_state), :start,
        :start, :end)
""")
_INSTANCE = text("""
    INSERT INTO instances (id, pool, offers, provider, region, zone, machine_type, capacity, slots, price_usd_hour,
        agent_id, state, cloud_id, requested_at, launched_at, ended_at)
    VALUES (gen_random_uuid(), 'default', '[]', 'aws', 'r', 'z', 'm', 'spot', 8, :price, :agent,
        cast(:state AS instance_state), :agent, :start, :start, :end)
""")
_END = {
    table: text(f"UPDATE {table} SET state = 'TERMINATED', ended_at = :now WHERE ended_at IS NULL")
    for table in ("allocations", "containers")
}
_FORGET = text("UPDATE closed_days SET summed_at = NULL")
_RESTORE = text("UPDATE closed_days SET summed_at = :at WHERE day = :day")
_SUMMED = text("""
    SELECT count(*) FROM closed_days c WHERE c.summed_at IS NOT NULL AND c.day >= :first
    AND NOT EXISTS (SELECT FROM changed_days x WHERE x.day = c.day)
""")
_SCRAMBLE = [
    text(f"UPDATE {table} SET {column} = {column} + 1")
    for table, column in (
        ("usage_of_days", "seconds"),
        ("work_costs_of_days", "usd"),
        ("machine_costs_of_days", "usd"),
    )
]


@dataclass
class History:
    """Experiments with runs on rented machines over some weeks. A task has one live allocation: its last run."""

    ctx: Context
    chance: random.Random
    experiments: list[int]

    def run(self, number: int) -> None:
        start = FIRST + timedelta(seconds=self.chance.randrange(20 * 86_400))
        end = start + timedelta(seconds=self.chance.choice((600, 40_000, 250_000)))
        if number == RUNS:  # the last one runs since some days
            start, end = FIRST + timedelta(days=15), NOW + timedelta(days=1)
        slots = self.chance.choice((1, 2, 8))
        params = {
            "id": f"run-{number}", "run": number, "experiment": self.chance.choice(self.experiments),
            "pool": self.chance.choice(("default", "other")), "slots": slots, "held": list(range(slots)),
            "agent": f"agent-{number}", "price": self.chance.choice((1.5, 0.333333)),
            "start": start, "end": end if end < NOW else None, "state": "TERMINATED" if end < NOW else "RUNNING",
        }  # fmt: skip
        machine = {**params, "state": "GONE" if end < NOW else "LAUNCHED"}
        with self.ctx.db.begin() as tx:
            tx.execute(_END["allocations"], {"now": NOW})
            tx.execute(_ALLOCATION, params)
            tx.execute(_CONTAINER, params)
            tx.execute(_INSTANCE, machine)


@pytest.fixture
def history(database: Database) -> History:
    ctx = context(database)
    ctx.now = lambda: NOW
    experiments = []
    for labels in ("[]", "[a]", "[a, b]"):
        config = f"{SINGLE}labels: {labels}\n"
        experiment = creation.create(ctx, OWNER, creation.Submission(config=config))
        experiments.append(experiment.experiment_id or 0)
    history = History(ctx, random.Random(3), experiments)
    for number in range(RUNS + 1):
        history.run(number)
    return history


def reports(ctx: Context) -> dict[str, Any]:
    """Return all reports that may read closed days. Sums of money are divided, so their last digits differ."""
    later = Span(FIRST + timedelta(hours=31), NOW - timedelta(hours=40), NOW)
    report_rows: dict[str, Any] = {}
    with ctx.db.begin() as tx:
        report_rows["day"] = usage.by_day(tx, FIRST, LAST, NOW)
        report_rows["month"] = usage.by_day(tx, FIRST, LAST, NOW, "month")
        work = costs.work_by_day(tx, FIRST, LAST, NOW)
        machines = costs.machines_by_day(tx, FIRST, LAST, NOW)
        report_rows["work"] = {w.start: (_sums(w.by_username), _sums(w.by_label)) for w in work}
        report_rows["machines"] = {m.start: (round(m.usd, 9), _sums(m.by_pool)) for m in machines}
        for name, span in (("all", Span(FIRST, NOW, NOW)), ("part", later)):
            users, pools = costs.by_user(tx, span), costs.by_pool(tx, span)
            report_rows[f"users {name}"] = [
                (c.name, _usd(c.usd), _usd(c.slot_hours)) for c in users
            ]
            report_rows[f"pools {name}"] = [
                (c.name, _usd(c.usd), _usd(c.working_usd)) for c in pools
            ]
            for scope, id in SCOPES.items():
                report_rows[f"{scope.value} {name}"] = _usd(costs.spent(tx, scope, id, span))
    return report_rows


def _sums(text: str) -> dict[str, float]:
    return {name: round(usd, 9) for name, usd in json.loads(text).items()}


def _usd(amount: Decimal) -> Decimal:
    return round(amount, 12)


def close(ctx: Context) -> int:
    """Close days in two ticks; return how many days of the history are closed."""
    sum_ended_days(ctx)
    sum_ended_days(ctx)
    with ctx.db.begin() as tx:
        return int(tx.execute(_SUMMED, {"first": FIRST}).scalar_one())


def from_rows(ctx: Context) -> dict[str, Any]:
    """Return the reports with every day open."""
    with ctx.db.begin() as tx:
        summed = tx.execute(text("SELECT day, summed_at FROM closed_days")).all()
        tx.execute(_FORGET)
    report = reports(ctx)
    with ctx.db.begin() as tx:
        for row in summed:
            tx.execute(_RESTORE, {"at": row.summed_at, "day": row.day})
    return report


def test_reports_of_closed_days_equal_reports_of_rows(history: History) -> None:
    before = reports(history.ctx)
    assert len(before["day"]) == 21
    assert close(history.ctx) == 20
    assert reports(history.ctx) == before
    with history.ctx.db.begin() as tx:
        for statement in _SCRAMBLE:
            tx.execute(statement)
    scrambled = reports(history.ctx)
    assert all(scrambled[name] != before[name] for name in before), "sums are read"


CORRECTIONS = {
    "an end moves back": "UPDATE allocations SET ended_at = ended_at - interval '2 days' WHERE id = 'run-7'",
    "an end moves ahead": "UPDATE allocations SET ended_at = ended_at + interval '30 hours' WHERE id = 'run-7'",
    "the end of a lost run": """
        UPDATE allocations SET state = 'TERMINATED', ended_at = started_at + interval '1 minute'
        WHERE ended_at IS NULL AND started_at IS NOT NULL""",
    "a start": "UPDATE allocations SET started_at = started_at - interval '1 day' WHERE id = 'run-9'",
    "the end of a container": """
        UPDATE containers SET ended_at = assigned_at + interval '1 minute' WHERE allocation_id = 'run-11'""",
    "the end of a machine": """
        UPDATE instances SET ended_at = launched_at + interval '5 minutes', state = 'GONE'
        WHERE agent_id = 'agent-13'""",
    "a price": "UPDATE instances SET price_usd_hour = 9 WHERE agent_id = 'agent-14'",
    "labels": "UPDATE experiments SET labels = ARRAY['c']",
    "a missing container": "DELETE FROM containers WHERE allocation_id = 'run-15'",
    "another workspace": "UPDATE jobs SET workspace_id = (SELECT max(id) FROM workspaces)",
    "another project": "UPDATE experiments SET project_id = (SELECT max(id) FROM projects)",
    "a project of another workspace": "UPDATE projects SET workspace_id = (SELECT max(id) FROM workspaces)",
}


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_late_correction_counts_before_and_after_the_next_sums(
    history: History, correction: str
) -> None:
    ctx = history.ctx
    with ctx.db.begin() as tx:
        tx.execute(text("INSERT INTO workspaces (name, user_id) VALUES ('another', 1)"))
        tx.execute(
            text(
                "INSERT INTO projects (name, key, user_id, workspace_id)"
                " SELECT 'another', 'ANO', 1, max(id) FROM workspaces"
            )
        )
    assert close(ctx) == 20
    with ctx.db.begin() as tx:
        assert tx.execute(text(CORRECTIONS[correction])).rowcount > 0
    expected = from_rows(ctx)
    assert reports(ctx) == expected
    assert close(ctx) == 20
    assert reports(ctx) == expected


def test_closed_days_begin_on_the_day_of_the_first_allocation(history: History) -> None:
    first = text("SELECT min(day) FROM closed_days")
    work = text("SELECT date_trunc('day', min(requested_at), 'UTC') FROM allocations")
    sum_ended_days(history.ctx)
    assert history.ctx.db.read(first)[0][0] == history.ctx.db.read(work)[0][0]


def test_tick_sums_some_days_and_next_tick_is_due_immediately(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(day_rows, "_SUMMED_AT_ONCE", 8)
    summed = text("SELECT count(*) FROM closed_days WHERE summed_at IS NOT NULL")
    parts = []
    for _ in range(5):
        is_unfinished = sum_ended_days(history.ctx)
        parts.append((history.ctx.db.read(summed)[0][0], is_unfinished))
    assert parts == [(0, False), (8, True), (16, True), (20, False), (20, False)]


def test_tick_continues_if_summing_a_day_fails(
    history: History, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> bool:
        raise ValueError("a day is damaged")

    monkeypatch.setattr(day_rows, "sum_days", fail)
    tick.run(history.ctx)
    assert "a tick could not sum ended days" in caplog.text


def test_a_cluster_without_work_closes_one_day(database: Database) -> None:
    ctx = context(database)
    sum_ended_days(ctx)
    assert ctx.db.read(text("SELECT count(*) FROM closed_days"))[0][0] == 1


def test_deleting_an_experiment_does_not_change_closed_days(history: History) -> None:
    ctx = history.ctx
    with ctx.db.begin() as tx:
        for statement in _END.values():
            tx.execute(statement, {"now": NOW})
    close(ctx)
    before = reports(ctx)
    with ctx.db.begin() as tx:
        usage.keep_of_experiment(tx, history.experiments[0])
        tx.execute(text("DELETE FROM experiments WHERE id = :id"), {"id": history.experiments[0]})
        assert tx.execute(text("SELECT count(*) FROM changed_days")).scalar() == 0
    assert reports(ctx) == before


def test_day_is_not_closed_while_older_transactions_are_open(history: History) -> None:
    ctx = history.ctx
    earlier = text(
        "UPDATE allocations SET ended_at = ended_at - interval '1 day' WHERE id = 'run-7'"
    )
    with ctx.db.begin() as late:
        late.execute(earlier)
        assert close(ctx) == 0
    assert close(ctx) == 20
    assert reports(ctx) == from_rows(ctx)
