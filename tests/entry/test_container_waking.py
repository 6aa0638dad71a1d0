"""Lost wakes of the services on Cloud Run: calls that fail, and processes that die before the call."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.adapters.cloud_run import SchedulerJobs, Services
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.db.cluster import cluster
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.container.waking import RemindingApp, checking_schedules, waking
from det_controlplane.entry.scheduled_work import Clock, ticking
from det_controlplane.ports.waker import NoWaker

from tests.support.api import Api, api_over
from tests.support.cloud_run import CLOSED, Front, Scheduler, front_end
from tests.support.processes import eventually
from tests.support.searching import SINGLE, Agent

TICK = "projects/acme/locations/us-west1/jobs/det-lab-tick"


@pytest.fixture
def database(fresh_database: Database) -> Database:
    return fresh_database


@dataclass
class Cluster:
    """An idle cluster: its schedule is paused, so only a call of the API starts a tick."""

    api: Api
    tick: Front
    scheduler: Scheduler

    def submit(self) -> None:
        body = {"config": SINGLE, "modelDefinition": [], "activate": True}
        self.api.signed_in("determined").post("/api/v1/experiments", body)

    def has_started_work(self) -> bool:
        statement = "SELECT count(*) FROM allocations WHERE state <> 'QUEUED'"
        with self.api.ctx.db.autocommit() as tx:
            return bool(tx.exec_driver_sql(statement).scalar())

    def is_ticking(self) -> bool:
        with self.api.ctx.db.autocommit() as tx:
            return cluster.is_ticking(tx)


@pytest.fixture
def idle(database: Database, tmp_path: Path) -> Iterator[Cluster]:
    with api_over(database, tmp_path) as api:
        Agent.joined(api.ctx)
        with database.begin() as tx:
            cluster.set_ticking(tx, False)
        turn_taken = threading.Lock()
        ended = threading.Event()

        def take_turn() -> int:
            with turn_taken:
                if not ended.is_set():  # a late call must not change the database of the next test
                    turn(Clock(lambda: 0.0))
            return 200

        with front_end(take_turn) as tick:
            scheduler = Scheduler({TICK: tick.answer})
            switch = SchedulerJobs([TICK], session=scheduler).switch
            turn = checking_schedules(api.ctx, ticking(api.ctx, switch), switch)
            notifier = LocalNotifier()
            calls = Services({"schedule": tick.url}, lambda url: {}, retry_after_s=(0.0,) * 5)
            api.ctx.waker = notifier
            api.app = RemindingApp(api.ctx, api.app.router)
            with waking(api.ctx, notifier, calls, switch):
                yield Cluster(api, tick, scheduler)
            with turn_taken:
                ended.set()


def test_experiment_starts_although_the_first_three_calls_fail(idle: Cluster) -> None:
    idle.tick.refusals = [429, 500, CLOSED]
    idle.submit()
    assert eventually(idle.has_started_work)


def test_schedule_starts_an_experiment_after_all_calls_failed(idle: Cluster) -> None:
    """There are no other requests, so the process gets no processor time for a retry."""
    idle.tick.refusals = [429] * 50
    idle.submit()
    assert idle.scheduler.states[TICK] == "ENABLED"
    idle.tick.refusals = []
    assert idle.scheduler.pass_a_minute() == [200]
    assert idle.has_started_work()
    assert idle.is_ticking()


def test_request_wakes_the_tick_for_work_of_a_dead_process(idle: Cluster) -> None:
    notifier, idle.api.ctx.waker = idle.api.ctx.waker, NoWaker()
    idle.submit()
    idle.api.ctx.waker = notifier
    idle.api.app = RemindingApp(idle.api.ctx, idle.api.app.router)
    idle.api.signed_in("determined")
    assert eventually(idle.has_started_work)


def test_health_checks_do_not_query_the_database(idle: Cluster) -> None:
    before = idle.api.ctx.db.uses
    idle.api.anonymous().ask("GET", "/no/such/path")
    assert idle.api.ctx.db.uses == before


def test_next_tick_pauses_an_unneeded_schedule(idle: Cluster, database: Database) -> None:
    with database.begin() as tx:
        tx.exec_driver_sql("DELETE FROM agents")
    idle.scheduler.states[TICK] = "ENABLED"
    assert idle.scheduler.pass_a_minute() == [200]
    assert idle.scheduler.states[TICK] == "PAUSED"


def test_request_succeeds_although_the_scheduler_api_fails(
    idle: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **more: Any) -> Any:
        raise OSError("the API of schedules is silent")

    monkeypatch.setattr(idle.scheduler, "request", refuse)
    idle.tick.refusals = [429] * 50
    idle.submit()
    assert "the schedules could not be resumed: the API of schedules is silent" in caplog.text
