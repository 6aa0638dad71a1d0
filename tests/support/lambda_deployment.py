"""A deployment's functions in a box: called as the front door and the schedules of AWS call them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from det_controlplane.db.engine.database import Database
from sqlalchemy import text

from tests.support.aws_box import REGION, Box, aws_box

WORKERS = ("tick", "provision")
_POOLS = {
    "checkpoint_storage": {"type": "s3", "bucket": "checkpoints"},
    "resource_manager": {
        "type": "agent", "default_compute_resource_pool": "gpus", "default_aux_resource_pool": "gpus",
    },
}  # fmt: skip
_PROVIDER = {
    "type": "aws", "region": REGION, "instance_type": "g4dn.xlarge",
    "iam_instance_profile_arn": "arn:aws:iam::123456789012:instance-profile/machine",
}  # fmt: skip


_MINUTES_LATER = (
    text("UPDATE instances SET claimed_until = claimed_until - interval '3 minutes'"),
    text("UPDATE instances SET requested_at = requested_at - interval '3 minutes',"
         " launched_at = launched_at - interval '3 minutes' WHERE state = 'LAUNCHED'"),
)  # fmt: skip


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
        return [machine["InstanceType"] for machine in self._described()]

    def alive(self) -> list[str]:
        """Return the machines that cost money."""
        instances = [m for m in self._described() if m["State"]["Name"] != "terminated"]
        return [machine["InstanceId"] for machine in instances]

    def _described(self) -> list[Any]:
        answer = self.aws("ec2").describe_instances()
        return [i for r in answer["Reservations"] for i in r["Instances"]]


def age_machines(database: Database) -> None:
    """Let minutes pass for machines: claims of dead processes expire after two."""
    with database.begin() as tx:
        for statement in _MINUTES_LATER:
            tx.execute(statement)


@contextmanager
def deployed_functions(
    code: bytes,
    environment: Mapping[str, str],
    folder: Path,
    *,
    db_idle_s: float = 60,
    **provider: Any,
) -> Iterator[Functions]:
    """Deploy `api`, `tick` and `provision` with a pool that rents EC2 machines, with further settings in `provider`.

    The database closes idle connections as late as the stack's, unless a test waits for it, because a connection
    that closes during a request fails it. Functions wait for the database as in the stack, also on a busy machine."""
    pool = {"pool_name": "gpus", "provider": {**_PROVIDER, **provider}}
    config = {**_POOLS, "resource_pools": [pool]}
    more = {
        "DET_CLUSTER_CONFIG": json.dumps(config), "DET_DB_IDLE_S": str(db_idle_s), "DET_DB_POOL_SIZE": "1",
        "DET_DB_WAKE_S": "20", "DET_AWS_PRICE_LIST": "false",
        "DET_TICK_FUNCTION": "tick:live", "DET_PROVISION_FUNCTION": "provision:live",
        "DET_SCHEDULES": ",".join(WORKERS), "DET_PUBLIC_URL": "https://cluster.example",
    }  # fmt: skip
    with aws_box(folder, environment["DET_DB_URL"], ("api", *WORKERS)) as box:
        functions = Functions(box, {**environment, **more}, code)
        functions.deploy()
        yield functions
