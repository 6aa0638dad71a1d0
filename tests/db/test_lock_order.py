"""Transactions lock rows in the order of docs/concepts/architecture.md, and skip locked rows elsewhere."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from det_controlplane.core.provision.model import ProvisionCode, ProvisionReason
from det_controlplane.db.engine.database import Database
from det_controlplane.db.experiments import experiments
from det_controlplane.db.machines import provision
from det_controlplane.db.scheduling import allocations, pool_marks
from det_controlplane.db.tasks import proxies
from det_controlplane.db.trials import trials
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from det_controlplane.services.experiments.creation import Submission
from det_controlplane.services.logs import task_logs
from det_controlplane.services.scheduling import schedule_pool
from det_controlplane.services.trials import unmanaged
from det_controlplane.services.use_case import Change, change
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent, context

_QUEUED = text("SELECT id FROM allocations WHERE state = 'QUEUED' ORDER BY requested_at, id")


def _two_that_want_one_slot(database: Database) -> tuple[Context, list[str]]:
    ctx = context(database)
    Agent.joined(ctx)
    for _ in range(2):
        creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    return ctx, _queued(ctx)


def _queued(ctx: Context) -> list[str]:
    return [row.id for row in ctx.db.read(_QUEUED)]


def test_pass_starts_a_job_while_a_report_locks_a_waiting_job(database: Database) -> None:
    ctx, (starts, waits) = _two_that_want_one_slot(database)
    with change(ctx) as report:
        allocations.lock(report.tx, waits)
        assert schedule_pool.run(context(database), "default") is not None
        # In the opposite order of the pass, as a report does when its search stops both.
        assert allocations.lock(report.tx, starts) is not None
    assert _queued(ctx) == [waits]


def test_pass_leaves_pool_marked_if_its_next_job_is_locked(
    database: Database,
) -> None:
    ctx, (starts, waits) = _two_that_want_one_slot(database)
    with change(ctx) as report:
        allocations.lock(report.tx, starts)
        assert schedule_pool.run(context(database), "default") is None
    with ctx.db.autocommit() as tx:
        assert pool_marks.dirty_pools(tx) == ["default"]
    assert _queued(ctx) == [starts, waits]


_SOON = text("SET LOCAL lock_timeout = '10s'")  # fail instead of waiting for ever
_BLOCKED = text("""
    SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
""")
_DELAY = text("UPDATE allocations SET not_before = :at")
_DELAYED = text("SELECT id FROM allocations WHERE not_before IS NOT NULL")
_VERSIONS = text("SELECT xmin::text, machine_reason FROM allocations ORDER BY id")
_TOLD = text("SELECT id FROM allocations WHERE machine_reason IS NOT NULL")
_TOUCHED = text("SELECT id FROM tasks WHERE proxied_at IS NOT NULL")
_OF_TRIALS = text("SELECT id, task_id FROM trials ORDER BY id")
POLICIES = f"""{SINGLE.replace("name: single", "name: random, max_trials: 2, max_concurrent_trials: 2")}
hyperparameters: {{lr: {{type: double, minval: 0, maxval: 1}}}}
log_policies: [{{pattern: out of memory, action: cancel_retries}}]
"""


def test_provisioning_reasons_are_stored_while_another_allocation_is_locked(
    database: Database,
) -> None:
    ctx, (free, held_job) = _two_that_want_one_slot(database)
    reason = ProvisionReason(ProvisionCode.NO_OFFER_FITS, "there are none")
    with change(ctx) as kill:
        allocations.lock(kill.tx, held_job)
        with context(database).db.begin() as tx:
            tx.execute(_SOON)
            provision.record(tx, {free: reason, held_job: reason}, {})
    assert [row.id for row in database.read(_TOLD)] == [free]


def _record(ctx: Context, reason: ProvisionReason) -> list[Any]:
    """Store a reason for all queued allocations as a decision does; return the versions of their rows."""
    with ctx.db.begin() as tx:
        waiting = provision.demand(tx, "default", 42)
        digests = {one.demand.allocation_id: one.machine_digest for one in waiting}
        provision.record(tx, dict.fromkeys(digests, reason), digests)
    return [tuple(row) for row in ctx.db.read(_VERSIONS)]


def test_unchanged_provisioning_reasons_are_not_written(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx, ids = _two_that_want_one_slot(database)
    first, second = (ProvisionReason(ProvisionCode.NO_OFFER_FITS, s) for s in ("one", "two"))
    versions = _record(ctx, first)
    assert [sentence for _, sentence in versions] == ["one", "one"]
    monkeypatch.setattr(provision, "_RECORD", None)
    assert _record(ctx, first) == versions
    monkeypatch.undo()
    assert [sentence for _, sentence in _record(ctx, second)] == ["two", "two"]
    assert len(ids) == 2


def test_delayed_runs_are_released_while_one_is_locked(database: Database) -> None:
    ctx, (_, held_job) = _two_that_want_one_slot(database)
    with ctx.db.begin() as tx:
        tx.execute(_DELAY, {"at": ctx.now() - timedelta(seconds=1)})
    with change(ctx) as kill:
        allocations.lock(kill.tx, held_job)
        with context(database).db.begin() as tx:
            tx.execute(_SOON)
            assert allocations.release_delayed(tx, ctx.now()) == {"default"}
    assert [row.id for row in database.read(_DELAYED)] == [held_job]
    with ctx.db.begin() as tx:
        assert allocations.release_delayed(tx, ctx.now()) == {"default"}
    assert list(database.read(_DELAYED)) == []


def test_traffic_is_recorded_while_another_task_is_locked(database: Database) -> None:
    ctx, _ = _two_that_want_one_slot(database)
    free, held_job = database.read(_OF_TRIALS)
    with change(ctx) as kill:
        trials.end_task(kill.tx, held_job.task_id, kill.now)
        with ThreadPoolExecutor(1) as threads:
            touching = threads.submit(
                proxies.touch, context(database).db, [free.task_id, held_job.task_id], ctx.now()
            )
            touching.result(60)
    assert [row.id for row in database.read(_TOUCHED)] == [free.task_id]


@contextmanager
def _kill_during(ctx: Context, experiment_id: int, act: Callable[[], object]) -> Iterator[Change]:
    """Hold an experiment until `act` waits for it, and let it end afterwards."""
    with ThreadPoolExecutor(1) as threads:
        with change(ctx) as kill:
            assert experiments.lock(kill.tx, experiment_id) is not None
            kill.tx.execute(_SOON)
            yield kill
            acting = threads.submit(act)
            while not ctx.db.read(_BLOCKED):
                assert not acting.done(), acting.result()
            trials.update(kill.tx, ctx.db.read(_OF_TRIALS)[0].id, runner_state="killed")
        acting.result(60)


@pytest.mark.parametrize("ends", [True, False])
def test_an_unmanaged_trial_locks_its_experiment_first(database: Database, ends: bool) -> None:
    ctx = context(database)
    experiment_id = creation.create(
        ctx, OWNER, Submission(config=SINGLE, unmanaged=True)
    ).experiment_id
    assert experiment_id is not None
    trial = unmanaged.create_trial(ctx, experiment_id, {}, None)

    def act() -> None:
        other = context(database)
        if ends:
            unmanaged.heartbeat(other, trial, "COMPLETED")
        else:
            unmanaged.start_trial(other, trial, resume=False)

    with _kill_during(ctx, experiment_id, act):
        pass
    assert database.read(_OF_TRIALS)[0].id == trial


def test_log_policies_lock_experiments_before_trials(database: Database) -> None:
    ctx = context(database)
    experiment_id = creation.create(ctx, OWNER, Submission(config=POLICIES)).experiment_id
    assert experiment_id is not None
    first, second = database.read(_OF_TRIALS)
    lines = [{"task_id": task, "log": "out of memory"} for task in (first.task_id, second.task_id)]
    with _kill_during(
        ctx, experiment_id, lambda: task_logs.store(context(database), lines)
    ) as kill:
        trials.update(kill.tx, second.id, runner_state="killed")
    matched = "SELECT count(*) AS found FROM trials WHERE log_policy_matched IS NOT NULL"
    assert database.read(text(matched))[0].found == 2
