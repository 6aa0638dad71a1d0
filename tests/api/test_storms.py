"""Many clients pause, activate and kill experiments of one pool at the same time, without deadlocks."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from det_controlplane.api.app import App
from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.migrate import migrate
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.context import Context
from det_controlplane.services.maintenance import tick
from det_controlplane.services.memory import ProcessMemory
from sqlalchemy import text

from tests.support.api import Api, Caller, create
from tests.support.processes import eventually
from tests.support.rented import rented_cluster
from tests.support.searching import Agent

CLIENTS, REQUESTS, EXPERIMENTS = 8, 12, 5
OPERATIONS = ("pause", "activate", "pause", "activate", "kill")
SEVERAL_TRIALS = {
    "name": "random", "metric": "loss", "max_trials": 8, "max_concurrent_trials": 8, "max_length": {"batches": 4},
}  # fmt: skip
_DEADLOCKS = text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
_OTHERS = text("""
    SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND backend_type = 'client backend'
""")


class Processes:
    """Several processes of an API over one database: each has its own connections and memory."""

    def __init__(self, api: Api, url: str) -> None:
        self.token = api.signed_in("determined").token
        self.contexts = [
            replace(api.ctx, db=Database(url), memory=ProcessMemory()) for _ in range(3)
        ]
        self._apps = [App(ctx, api.app.router) for ctx in self.contexts]

    def caller(self, number: int) -> Caller:
        return Caller(self._apps[number % len(self._apps)], self.token)

    def context(self, number: int) -> Context:
        return self.contexts[number % len(self.contexts)]


@contextmanager
def pool_that_rents(url: str, folder: Path) -> Iterator[Processes]:
    """Yield a renting pool with one agent, so that some allocations run and others wait for machines."""
    database = Database(url)
    opened = [database]
    try:
        with rented_cluster(database, folder) as cluster:
            cluster.api.ctx.now = lambda: datetime.now(timezone.utc)
            processes = Processes(cluster.api, url)
            opened += [ctx.db for ctx in processes.contexts]
            yield processes
    finally:
        for each in opened:
            each.dispose()


def client(processes: Processes, ids: list[int], number: int) -> Counter[str]:
    """Send requests and replace each killed experiment by a new one. Return the number of answers by kind."""
    chance, caller, answers = random.Random(number), processes.caller(number), Counter[str]()
    for _ in range(REQUESTS):
        place, operation = chance.randrange(len(ids)), chance.choice(OPERATIONS)
        response = caller.ask("POST", f"/api/v1/experiments/{ids[place]}/{operation}")
        answers[f"{operation} {response.status}"] += 1
        if operation == "kill":
            ids[place] = create(caller, activate=True, searcher=SEVERAL_TRIALS)
    return answers


def agent(processes: Processes, over: threading.Event) -> None:
    """Report ordered containers as running, and as ended once the order asks for that."""
    played = Agent.joined(processes.context(0), slots=4)
    reports: list[Report] = []
    while not over.is_set():
        reports = [_report(order) for order in played.poll(*reports)]


def _report(order: dict[str, Any]) -> Report:
    ends = order["desired"] == "killed" or order["preempt"]
    state = ContainerState.TERMINATED if ends else ContainerState.RUNNING
    return Report(order["id"], order["epoch"], state, exit_code=137 if ends else None)


def ticks(processes: Processes, over: threading.Event, number: int) -> None:
    while not over.is_set():
        tick.run(processes.context(number))


def test_many_concurrent_pauses_and_kills_have_no_deadlock(
    empty_database_url: str, tmp_path: Path
) -> None:
    migrate(empty_database_url)
    over = threading.Event()
    with pool_that_rents(empty_database_url, tmp_path) as processes:
        ids = [
            create(processes.caller(n), activate=True, searcher=SEVERAL_TRIALS)
            for n in range(EXPERIMENTS)
        ]
        with ThreadPoolExecutor(CLIENTS + 3) as threads:
            beside = [
                threads.submit(agent, processes, over),
                *(threads.submit(ticks, processes, over, n) for n in range(2)),
            ]
            clients = [threads.submit(client, processes, ids, n) for n in range(CLIENTS)]
            try:
                answers = sum((each.result(300) for each in clients), Counter[str]())
            finally:
                over.set()
        for each in beside:
            each.result(60)
    assert sum(answers.values()) == CLIENTS * REQUESTS
    assert {answer.split()[1] for answer in answers} <= {"200", "400"}, answers
    assert {f"{operation} 200" for operation in OPERATIONS} <= answers.keys()
    assert deadlocks(empty_database_url) == 0


def deadlocks(url: str) -> int:
    """Return the number of deadlocks. PostgreSQL counts the deadlocks of a connection when the connection closes."""
    database = Database(url, pool_size=1)
    try:
        assert eventually(lambda: not database.read(_OTHERS))
        return int(database.read(_DEADLOCKS)[0].deadlocks)
    finally:
        database.dispose()
