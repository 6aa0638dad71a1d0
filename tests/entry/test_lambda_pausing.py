"""The deployed functions and a database that pauses: idle means no query, and the first request wakes everything."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from det_controlplane.db.engine import Database
from sqlalchemy import Row, text

from tests.support.aws_box import REGION, Box, aws_box
from tests.support.aws_calls import documented_calls
from tests.support.lambda_calls import call, create_experiment, sign_in
from tests.support.lambda_events import Http, answered, function_url_event
from tests.support.lambda_runtime import LambdaRuntime
from tests.support.processes import eventually
from tests.support.sleeping_database import SleepingDatabase, sleeping_database

pytestmark = pytest.mark.slow

WORKERS = ("tick", "provision")
POOLS = {
    "checkpoint_storage": {"type": "s3", "bucket": "checkpoints"},
    "resource_manager": {
        "type": "agent", "default_compute_resource_pool": "gpus", "default_aux_resource_pool": "gpus",
    },
    "resource_pools": [
        {
            "pool_name": "gpus",
            "provider": {
                "type": "aws", "region": REGION, "instance_type": "g4dn.xlarge",
                "iam_instance_profile_arn": "arn:aws:iam::123456789012:instance-profile/machine",
            },
        }
    ],
}  # fmt: skip
# Of the database of the functions, told to a connection with another one: how many are connected, and how many ever
# were. Transactions are no measure: the server's own vacuum makes some.
SESSIONS = text("SELECT count(*) FROM pg_stat_activity WHERE datname = :name")
STATISTICS = text("SELECT sessions FROM pg_stat_database WHERE datname = :name")


@dataclass
class Functions:
    """The functions of a deployment, called as the front door and the schedules of AWS call them."""

    box: Box
    environment: Mapping[str, str]
    code: bytes

    def deploy(self) -> None:
        for name in ("api", *WORKERS):
            role = self.aws("iam").create_role(RoleName=name, AssumeRolePolicyDocument="{}")["Role"]
            self.aws("lambda").create_function(
                FunctionName=name, Runtime="python3.11", Role=role["Arn"], Code={"ZipFile": self.code},
                Handler=f"app.{'app' if name == 'api' else name}",
                Environment={"Variables": dict(self.environment)}, Publish=True,
            )  # fmt: skip
            self.aws("lambda").create_alias(FunctionName=name, Name="live", FunctionVersion="1")
        self.aws("lambda").create_function_url_config(FunctionName="api", AuthType="NONE")
        for name in WORKERS:
            target = {"Arn": f"arn:aws:lambda:{REGION}:1:function:{name}", "RoleArn": "arn:x"}
            self.aws("scheduler").create_schedule(
                Name=name, ScheduleExpression="rate(1 minute)", FlexibleTimeWindow={"Mode": "OFF"},
                Target=target,
            )  # fmt: skip

    def aws(self, service: str) -> Any:
        return boto3.client(service, region_name=REGION, endpoint_url=self.box.aws_url)

    def invoke(self, event: Any) -> Any:
        """Carry an event of `lambda_calls` to the function URL."""
        event = json.loads(json.dumps(event))
        return self.box.invoke(self.box._api(), event)

    def scheduled(self) -> list[str]:
        scheduler = self.aws("scheduler")
        states = {name: scheduler.get_schedule(Name=name)["State"] for name in WORKERS}
        return [name for name, state in states.items() if state == "ENABLED"]

    def pass_minutes(self, count: int) -> None:
        """Let the schedules that are on call their functions, once a minute."""
        for _ in range(count):
            for name in self.scheduled():
                self.aws("lambda").invoke(FunctionName=name, Payload=b"{}")
            self.box.settle()

    def machines(self) -> list[str]:
        answer = self.aws("ec2").describe_instances()
        return [i["InstanceType"] for r in answer["Reservations"] for i in r["Instances"]]


@pytest.fixture
def functions(
    deployment_zip: Path, environment: dict[str, str], tmp_path: Path
) -> Iterator[Functions]:
    more = {
        "DET_CLUSTER_CONFIG": json.dumps(POOLS), "DET_DB_IDLE_S": "1", "DET_DB_POOL_SIZE": "1",
        "DET_AWS_PRICE_LIST": "false",
        "DET_TICK_FUNCTION": "tick:live", "DET_PROVISION_FUNCTION": "provision:live",
        "DET_SCHEDULES": ",".join(WORKERS), "DET_PUBLIC_URL": "https://cluster.example",
    }  # fmt: skip
    with aws_box(tmp_path / "functions", environment["DET_DB_URL"], ("api", *WORKERS)) as box:
        made = Functions(box, {**environment, **more}, deployment_zip.read_bytes())
        made.deploy()
        yield made


@pytest.fixture
def look(postgres_server: Any, environment: dict[str, str]) -> Iterator[Callable[[Any], Row[Any]]]:
    """Ask about the database of the functions without being connected with it."""
    name = environment["DET_DB_URL"].partition("?")[0].rpartition("/")[2]
    with postgres_server.database(template="template1") as url:
        other = Database(url, pool_size=1)
        yield lambda statement: other.read(statement, {"name": name})[0]
        other.dispose()


def test_an_idle_hour_has_no_query_and_the_first_experiment_gets_its_machine(
    functions: Functions, look: Callable[[Any], Row[Any]]
) -> None:
    token = sign_in(functions)
    functions.pass_minutes(2)
    assert functions.scheduled() == [], "nothing is active, and the schedules still call"
    assert eventually(lambda: look(SESSIONS)[0] == 0), "a frozen function holds its connection"
    before = look(STATISTICS)
    functions.pass_minutes(60)
    assert look(SESSIONS)[0] == 0
    assert look(STATISTICS) == before

    create_experiment(functions, token)
    functions.box.settle()
    assert functions.scheduled() == list(WORKERS)
    functions.pass_minutes(1)
    assert functions.machines() == ["g4dn.xlarge"]
    assert functions.box.failed == []
    called = {(call.action.partition(":")[0], call.caller) for call in functions.box.recorder.calls}
    assert ("ec2", "provision") in called
    called -= {("iam", name) for name in WORKERS}  # PassRole: a right within another call
    assert called <= {(c.service, by) for c in documented_calls() for by in c.callers}


@pytest.fixture
def sleeping(environment: dict[str, str]) -> Iterator[SleepingDatabase]:
    with sleeping_database(environment["DET_DB_URL"]) as front:
        yield front


@pytest.mark.parametrize("refuses", [False, True])
def test_a_request_to_a_sleeping_database_is_answered_before_the_gateway_gives_up(
    task_root: Path, environment: dict[str, str], sleeping: SleepingDatabase, refuses: bool
) -> None:
    sleeping.refuses = refuses
    cold = {
        **environment, "DET_DB_URL": sleeping.url, "DET_DB_WAKE_S": "2", "DET_CLUSTER_ID": "box",
    }  # fmt: skip
    with LambdaRuntime(task_root, "app.app", cold) as api:
        assert call(api, "GET", "/info")["cluster_id"] == "box", "every client begins with it"
        event = function_url_event(Http("GET", "/api/v1/me"))
        status, headers, body = answered(api.invoke(event))
        assert (status, headers["retry-after"]) == (503, "5")
        assert "the database is waking up" in json.loads(body)["error"]["error"]
        sleeping.awake.set()
        assert sign_in(api)


def test_a_request_waits_for_a_database_that_wakes_in_time(
    task_root: Path, environment: dict[str, str], sleeping: SleepingDatabase
) -> None:
    sleeping.wake_at_call(1)
    with LambdaRuntime(
        task_root, "app.app", {**environment, "DET_DB_URL": sleeping.url, "DET_DB_WAKE_S": "20"}
    ) as api:
        assert sign_in(api)


def test_a_migration_waits_for_the_database_too(
    task_root: Path, environment: dict[str, str], sleeping: SleepingDatabase
) -> None:
    sleeping.wake_at_call(1)
    cold = {**environment, "DET_DB_URL": sleeping.url, "DET_DB_WAKE_S": "20"}
    with LambdaRuntime(task_root, "app.migrate", cold) as migrate:
        assert migrate.invoke({}) == []
