"""Functions that die beside any call of their cloud: what they began is taken up, and nothing is rented twice."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from det_controlplane.db.engine import Database
from moto.server import DomainDispatcherApplication
from sqlalchemy import text

from tests.support.lambda_calls import call, create_experiment, sign_in
from tests.support.lambda_deployment import Functions, deployed_functions

pytestmark = pytest.mark.heavy("starts a process for each call that it dies beside")

# What a dead process claimed is free again after two minutes, and what is idle goes after a second.
TIME_PASSES = (
    text("UPDATE instances SET claimed_until = claimed_until - interval '3 minutes'"),
    text("UPDATE instances SET requested_at = requested_at - interval '3 minutes',"
         " launched_at = launched_at - interval '3 minutes' WHERE state = 'LAUNCHED'"),
)  # fmt: skip
ROWS = text("SELECT cloud_id, state::text FROM instances ORDER BY requested_at")


@dataclass
class Killer:
    """Kills `provision` beside one of its calls of the cloud: before it arrives, or when it was carried out."""

    functions: Functions
    call: int  # from 0
    carried_out: bool
    calls: list[str] = field(default_factory=list)
    killed: bool = False
    counting: threading.Lock = field(default_factory=threading.Lock)

    def around(self, carry: Any, environ: dict[str, Any], start_response: Any) -> Any:
        if "Credential=provision/" not in environ.get("HTTP_AUTHORIZATION", ""):
            return carry(environ, start_response)
        with self.counting:
            is_it = len(self.calls) == self.call
            self.calls.append(action_of(environ))
        if is_it and not self.carried_out:
            self._kill()
            start_response("503 Service Unavailable", [])
            return []
        answer = list(carry(environ, start_response))
        if is_it:
            self._kill()
        return answer

    def _kill(self) -> None:
        self.killed = True
        self.functions.box.kill("provision")


def action_of(environ: dict[str, Any]) -> str:
    """Return what a call asks of EC2."""
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = BytesIO(body)
    asked = dict(parse_qsl(body.decode("utf-8", "replace")))
    return asked.get("Action", "of another service")


@pytest.fixture
def functions(
    deployment_zip: Path, environment: Mapping[str, str], tmp_path: Path
) -> Iterator[Functions]:
    code = deployment_zip.read_bytes()
    folder = tmp_path / "functions"
    with deployed_functions(code, environment, folder, max_idle_agent_period="1s") as made:
        yield made


def alive(functions: Functions) -> list[str]:
    answer = functions.aws("ec2").describe_instances()
    found = [i for r in answer["Reservations"] for i in r["Instances"]]
    return [i["InstanceId"] for i in found if i["State"]["Name"] != "terminated"]


def everything(functions: Functions) -> list[str]:
    answer = functions.aws("ec2").describe_instances()
    return [i["InstanceId"] for r in answer["Reservations"] for i in r["Instances"]]


def test_a_function_that_dies_beside_any_call_of_its_cloud_rents_nothing_twice_and_leaves_nothing(
    functions: Functions, environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    carry = DomainDispatcherApplication.__call__
    killers: list[Killer] = []

    def arrives(application: Any, environ: dict[str, Any], start_response: Any) -> Any:
        def onwards(e: dict[str, Any], s: Any) -> Any:
            return carry(application, e, s)

        if not killers:
            return onwards(environ, start_response)
        return killers[-1].around(onwards, environ, start_response)

    monkeypatch.setattr(DomainDispatcherApplication, "__call__", arrives)
    database = Database(environment["DET_DB_URL"], pool_size=1)
    token, deaths = sign_in(functions), []
    number = 0
    while not killers or "TerminateInstances" not in killers[-1].calls[:number]:
        for carried_out in (False, True):
            killers.append(Killer(functions, number, carried_out))
            rented = one_machine_comes_and_goes(functions, token, database)
            assert killers[-1].killed, "it made fewer calls than before"
            action = killers[-1].calls[number]
            deaths.append(f"{'after' if carried_out else 'before'} {action}")
            assert len(rented) == 1, f"{deaths[-1]}: {rented}"
            if action.startswith("Describe"):
                break  # what was read is lost, and nothing else
        number += 1
    database.dispose()
    for action in ("CreateFleet", "TerminateInstances"):
        assert {f"before {action}", f"after {action}"} <= set(deaths), deaths


def one_machine_comes_and_goes(functions: Functions, token: str, database: Database) -> "set[str]":
    """Ask for a machine, then for none; return the machines that there ever were."""
    before = set(everything(functions))
    experiment = create_experiment(functions, token)
    functions.box.settle()
    minutes(functions, database, until=lambda: bool(alive(functions)))
    minutes(functions, database, count=2)  # what would rent another one has its time
    assert len(alive(functions)) == 1
    call(functions, "POST", f"/api/v1/experiments/{experiment}/kill", token)
    functions.box.settle()
    minutes(functions, database, until=lambda: not alive(functions))
    minutes(functions, database, count=2)
    rows = [tuple(row) for row in database.read(ROWS)]
    assert all(state in ("GONE", "FAILED") for _, state in rows), rows
    assert alive(functions) == []
    return set(everything(functions)) - before


def minutes(
    functions: Functions, database: Database, count: int = 8, until: Any = lambda: False
) -> None:
    """Let time pass until something is so, with the schedules that deliver again what died."""
    for _ in range(count):
        if until():
            return
        with database.begin() as tx:
            for statement in TIME_PASSES:
                tx.execute(statement)
        functions.pass_minutes(1)
