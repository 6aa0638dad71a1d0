"""The deployed functions and a database that pauses: idle means no query, and the first request wakes everything."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.db.engine.database import Database
from sqlalchemy import Row, text

from tests.support.aws_calls import documented_calls
from tests.support.lambda_calls import call, create_experiment, sign_in
from tests.support.lambda_deployment import (
    WORKERS,
    Functions,
    age_machines,
    deployed_functions,
)
from tests.support.lambda_events import Http, answered, function_url_event
from tests.support.lambda_runtime import LambdaRuntime
from tests.support.processes import eventually
from tests.support.sleeping_database import SleepingDatabase, sleeping_database

pytestmark = pytest.mark.slow

# The present and total numbers of connections to the functions' database, read by a connection to another database.
# Transactions cannot be counted, because the server's vacuum makes some.
SESSIONS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = :name AND application_name = 'determined-serverless'"
)
STATISTICS = text("SELECT sessions FROM pg_stat_database WHERE datname = :name")


@pytest.fixture
def functions(
    deployment_zip: Path, environment: dict[str, str], tmp_path: Path
) -> Iterator[Functions]:
    code = deployment_zip.read_bytes()
    with deployed_functions(code, environment, tmp_path / "functions", db_idle_s=1) as deployment:
        yield deployment


@pytest.fixture
def look(postgres_server: Any, environment: dict[str, str]) -> Iterator[Callable[[Any], Row[Any]]]:
    """Ask about the database of the functions without being connected with it."""
    name = environment["DET_DB_URL"].partition("?")[0].rpartition("/")[2]
    with postgres_server.empty_database() as url:
        other = Database(url, pool_size=1)
        yield lambda statement: other.read(statement, {"name": name})[0]
        other.dispose()


def test_idle_hour_has_no_query_and_the_first_experiment_gets_a_machine(
    functions: Functions, look: Callable[[Any], Row[Any]]
) -> None:
    token = sign_in(functions)
    check_idle_hour_without_queries(functions, look)
    create_experiment(functions, token)
    functions.box.settle()
    assert functions.scheduled() == list(WORKERS)
    functions.pass_minutes(1)
    assert functions.machines() == ["g4dn.xlarge"]
    assert functions.box.failed == []
    actions = {
        (call.action.partition(":")[0], call.caller) for call in functions.box.recorder.calls
    }
    assert ("ec2", "provision") in actions
    actions -= {("iam", name) for name in WORKERS}  # PassRole: a right within another call
    assert actions <= {(c.service, by) for c in documented_calls() for by in c.callers}


def check_idle_hour_without_queries(functions: Functions, look: Callable[[Any], Row[Any]]) -> None:
    functions.pass_minutes(2)
    assert functions.scheduled() == [], "the schedules of an idle cluster must be off"
    assert eventually(lambda: look(SESSIONS)[0] == 0), (
        "a frozen function must not keep its connection"
    )
    before = look(STATISTICS)
    functions.pass_minutes(60)
    assert look(SESSIONS)[0] == 0
    assert look(STATISTICS) == before


@pytest.fixture
def paused(
    deployment_zip: Path, environment: dict[str, str], sleeping: SleepingDatabase, tmp_path: Path
) -> Iterator[Functions]:
    """Functions over a database that pauses on demand."""
    code = deployment_zip.read_bytes()
    variables = {**environment, "DET_DB_URL": sleeping.url, "DET_DB_WAKE_S": "20"}
    with deployed_functions(
        code, variables, tmp_path / "functions", db_idle_s=4, max_idle_agent_period="1s"
    ) as deployment:
        yield deployment


@pytest.mark.heavy("plays a month")
def test_database_wakes_only_on_days_with_work(
    paused: Functions,
    sleeping: SleepingDatabase,
    look: Callable[[Any], Row[Any]],
    environment: dict[str, str],
) -> None:
    """Work comes once a week: it wakes the database and gets its machine, and all goes to sleep behind it."""
    sleeping.awake.set()
    paused.box.retries = 2
    token = sign_in(paused)
    for week in range(1, 5):
        check_idle_hour_without_queries(paused, look)
        sleeping.awake.clear()
        calls = sleeping.calls
        paused.pass_minutes(100)
        assert sleeping.calls == calls, "a sleeping database must not be called"
        sleeping.wake_at_call(1)
        experiment = create_experiment(paused, token)
        paused.box.settle()
        paused.pass_minutes(1)
        assert len(paused.machines()) == week
        call(paused, "POST", f"/api/v1/experiments/{experiment}/kill", token)
        paused.box.settle()
        assert eventually(lambda: has_released_machines(paused, environment["DET_DB_URL"]))
    assert paused.box.failed == []


def has_released_machines(functions: Functions, database_url: str) -> bool:
    """Let a minute pass. Return whether no machine costs money then."""
    database = Database(database_url, pool_size=1)
    age_machines(database)
    database.dispose()
    functions.pass_minutes(1)
    return not functions.alive()


@pytest.fixture
def sleeping(environment: dict[str, str]) -> Iterator[SleepingDatabase]:
    with sleeping_database(environment["DET_DB_URL"]) as front:
        yield front


@pytest.mark.parametrize("refuses", [False, True])
def test_request_to_a_sleeping_database_returns_503_before_the_gateway_timeout(
    task_root: Path, environment: dict[str, str], sleeping: SleepingDatabase, refuses: bool
) -> None:
    sleeping.refuses = refuses
    cold = {
        **environment, "DET_DB_URL": sleeping.url, "DET_DB_WAKE_S": "2", "DET_CLUSTER_ID": "box",
    }  # fmt: skip
    with LambdaRuntime(task_root, "app.app", cold) as api:
        assert call(api, "GET", "/info")["cluster_id"] == "box", "clients send this request first"
        event = function_url_event(Http("GET", "/api/v1/me"))
        status, headers, body = answered(api.invoke(event))
        assert (status, headers["retry-after"]) == (503, "5")
        assert "the database is waking up" in json.loads(body)["error"]["error"]
        sleeping.awake.set()
        assert sign_in(api)


def test_request_waits_for_a_waking_database(
    task_root: Path, environment: dict[str, str], sleeping: SleepingDatabase
) -> None:
    sleeping.wake_at_call(1)
    with LambdaRuntime(
        task_root, "app.app", {**environment, "DET_DB_URL": sleeping.url, "DET_DB_WAKE_S": "20"}
    ) as api:
        assert sign_in(api)


def test_migration_waits_for_a_waking_database(
    task_root: Path, environment: dict[str, str], sleeping: SleepingDatabase
) -> None:
    sleeping.wake_at_call(1)
    cold = {**environment, "DET_DB_URL": sleeping.url, "DET_DB_WAKE_S": "20"}
    with LambdaRuntime(task_root, "app.migrate", cold) as migrate:
        assert migrate.invoke({}) == []
