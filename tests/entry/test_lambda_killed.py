"""Functions that die during a call of their cloud: their work is continued, and no machine is rented twice."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from det_controlplane.db.engine.database import Database
from moto.server import DomainDispatcherApplication
from sqlalchemy import text

from tests.support.lambda_calls import call, create_experiment, sign_in
from tests.support.lambda_deployment import Functions, age_machines, deployed_functions
from tests.support.lambda_runtime import FunctionFailed
from tests.support.watched_database import watched_database

pytestmark = pytest.mark.heavy("starts a process for each call that it dies beside")

EXPERIMENTS = text("SELECT id FROM experiments")
NEWEST = "/api/v1/experiments?orderBy=ORDER_BY_DESC&sortBy=SORT_BY_ID&limit=5"
TICKS_EFFECTS = 30  # of the ticks that follow the first work of an idle cluster
ROWS = text("SELECT cloud_id, state::text FROM instances ORDER BY requested_at")


@dataclass
class Killer:
    """Kills a function at one of its effects: before the effect, or after it.

    Effects are calls of the cloud and the selected kinds of statements."""

    functions: Functions
    name: str
    number: int  # from 0
    carried_out: bool = False
    kinds: frozenset[str] = frozenset()
    effects: list[str] = field(default_factory=list)
    killed: bool = False
    counting: threading.Lock = field(default_factory=threading.Lock)

    def around(self, carry: Any, environ: dict[str, Any], start_response: Any) -> Any:
        if f"Credential={self.name}/" not in environ.get("HTTP_AUTHORIZATION", ""):
            return carry(environ, start_response)
        is_it = self._is_it(action_of(environ))
        if is_it and not self.carried_out:
            self._kill()
            start_response("503 Service Unavailable", [])
            return []
        answer = list(carry(environ, start_response))
        if is_it:
            self._kill()
        return answer

    def lets(self, kind: str) -> bool:
        """Return whether a statement continues."""
        if kind not in self.kinds or not self._is_it(kind):
            return True
        self._kill()
        return False

    def _is_it(self, effect: str) -> bool:
        with self.counting:
            self.effects.append(effect)
            return len(self.effects) == self.number + 1

    def _kill(self) -> None:
        self.killed = True
        self.functions.box.kill(self.name)


def action_of(environ: dict[str, Any]) -> str:
    """Return the action of a call to EC2."""
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = BytesIO(body)
    parameters = dict(parse_qsl(body.decode("utf-8", "replace")))
    return parameters.get("Action") or f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"


@pytest.fixture
def functions(
    deployment_zip: Path, environment: Mapping[str, str], tmp_path: Path
) -> Iterator[Functions]:
    code = deployment_zip.read_bytes()
    folder = tmp_path / "functions"
    with deployed_functions(code, environment, folder, max_idle_agent_period="1s") as deployment:
        yield deployment


def everything(functions: Functions) -> list[str]:
    answer = functions.aws("ec2").describe_instances()
    return [i["InstanceId"] for r in answer["Reservations"] for i in r["Instances"]]


@pytest.fixture
def killers(monkeypatch: pytest.MonkeyPatch) -> list[Killer]:
    """Return where killers are put: the last one is beside all calls of the cloud."""
    carry = DomainDispatcherApplication.__call__
    killers: list[Killer] = []

    def arrives(application: Any, environ: dict[str, Any], start_response: Any) -> Any:
        def onwards(e: dict[str, Any], s: Any) -> Any:
            return carry(application, e, s)

        if not killers:
            return onwards(environ, start_response)
        return killers[-1].around(onwards, environ, start_response)

    monkeypatch.setattr(DomainDispatcherApplication, "__call__", arrives)
    return killers


def test_function_killed_at_any_cloud_call_rents_one_machine(
    functions: Functions, environment: Mapping[str, str], killers: list[Killer]
) -> None:
    database = Database(environment["DET_DB_URL"], pool_size=1)
    token, deaths = sign_in(functions), []
    number = 0
    while not killers or "TerminateInstances" not in killers[-1].effects[:number]:
        for carried_out in (False, True):
            killers.append(Killer(functions, "provision", number, carried_out))
            machine = rent_and_release_a_machine(functions, User(functions, token, database))
            assert killers[-1].killed, "it made fewer calls than before"
            action = killers[-1].effects[number]
            deaths.append(f"{'after' if carried_out else 'before'} {action}")
            assert len(machine) == 1, f"{deaths[-1]}: {machine}"
            if action.startswith("Describe"):
                break  # only data that was read is lost
        number += 1
    database.dispose()
    for action in ("CreateFleet", "TerminateInstances"):
        assert {f"before {action}", f"after {action}"} <= set(deaths), deaths


@pytest.fixture
def watched(
    functions: Functions, environment: Mapping[str, str], killers: list[Killer]
) -> Iterator[Functions]:
    """Functions of which `api` and `tick` reach the database past killers."""

    def lets(name: str, kind: str) -> bool:
        return not killers or killers[-1].name != name or killers[-1].lets(kind)

    with ExitStack() as stack:
        for name in ("api", "tick"):
            url = watched_database(environment["DET_DB_URL"], partial(lets, name))
            functions.box.database_urls[name] = stack.enter_context(url)
        yield functions


@pytest.mark.parametrize(
    ("kinds", "count", "met"),
    [([], 3, ["/functions/provision", "/schedules/"]), (["commit"], TICKS_EFFECTS, ["commit"])],
    ids=["calls", "commits"],
)
def test_tick_killed_at_any_commit_or_call_is_repeated(
    watched: Functions,
    environment: Mapping[str, str],
    killers: list[Killer],
    kinds: list[str],
    count: int,
    met: list[str],
) -> None:
    """A tick decides, starts `provision` and switches schedules; AWS runs it again, and then its schedule does."""
    watched.box.retries = 2
    database = Database(environment["DET_DB_URL"], pool_size=1)
    token, deaths = sign_in(watched), set[str]()
    for number in range(count):
        killers.append(Killer(watched, "tick", number, kinds=frozenset(kinds)))
        machine = rent_and_release_a_machine(watched, User(watched, token, database))
        assert killers[-1].killed, killers[-1].effects
        deaths.add(killers[-1].effects[number])
        assert len(machine) == 1, f"{number}: {killers[-1].effects}: {machine}"
    database.dispose()
    assert [m for m in met if not any(m in action for action in deaths)] == [], deaths


def test_api_killed_at_any_statement_or_call_loses_no_stored_work(
    watched: Functions, environment: Mapping[str, str], killers: list[Killer]
) -> None:
    """It may have stored the first work of an idle cluster, and died before it started the tick."""
    database = Database(environment["DET_DB_URL"], pool_size=1)
    token, number, deaths = sign_in(watched), 0, list[str]()
    while True:
        killers.append(Killer(watched, "api", number, kinds=frozenset({"statement", "commit"})))
        machine = rent_and_release_a_machine(watched, User(watched, token, database))
        assert len(machine) == 1, f"{number}: {killers[-1].effects}: {machine}"
        if not killers[-1].killed:
            break
        deaths.append(killers[-1].effects[number])
        number += 1
    database.dispose()
    assert deaths.count("commit") >= 2, deaths
    assert [d for d in deaths if "/functions/tick" in d], deaths


@dataclass
class User:
    """A user with Determined's own client, who repeats failed commands if they had no effect."""

    functions: Functions
    token: str
    database: Database

    def create(self) -> int:
        before = {row.id for row in self.database.read(EXPERIMENTS)}
        with suppress(FunctionFailed):
            return create_experiment(self.functions, self.token)
        experiments = call(self.functions, "GET", NEWEST, self.token)["experiments"]
        ids = [experiment["id"] for experiment in experiments if experiment["id"] not in before]
        return ids[0] if ids else create_experiment(self.functions, self.token)

    def kill(self, experiment: int) -> None:
        path = f"/api/v1/experiments/{experiment}/kill"
        with suppress(FunctionFailed):
            call(self.functions, "POST", path, self.token)
            return
        call(self.functions, "POST", path, self.token)


def rent_and_release_a_machine(functions: Functions, user: User) -> "set[str]":
    """Request a machine and release it; return all machines that were ever rented."""
    before = set(everything(functions))
    experiment = user.create()
    functions.box.settle()
    minutes(functions, user.database, until=lambda: bool(functions.alive()))
    minutes(functions, user.database, count=2)  # a second launch would have had time
    assert len(functions.alive()) == 1, [tuple(row) for row in user.database.read(ROWS)]
    user.kill(experiment)
    functions.box.settle()
    minutes(functions, user.database, until=lambda: not functions.alive())
    minutes(functions, user.database, count=2)
    rows = [tuple(row) for row in user.database.read(ROWS)]
    assert all(state in ("GONE", "FAILED") for _, state in rows), rows
    assert functions.alive() == []
    return set(everything(functions)) - before


def minutes(
    functions: Functions, database: Database, count: int = 8, until: Any = lambda: False
) -> None:
    """Let time pass until a condition holds, with schedules that repeat lost events."""
    for _ in range(count):
        if until():
            return
        age_machines(database)
        functions.pass_minutes(1)
