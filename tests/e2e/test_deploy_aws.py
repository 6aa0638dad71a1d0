"""`det deploy aws` against moto with the real Terraform, and what it deployed run as Lambda would run it."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest

from tests.support.aws_box import REGION, Box, aws_box, terraform_mirror
from tests.support.aws_rights import Policy
from tests.support.cluster import DET, Answer
from tests.support.skips import TERRAFORM, skip

pytestmark = pytest.mark.heavy("waits for minutes where the AWS provider of Terraform does")

CLUSTER = "box"
FUNCTIONS = ("api", "tick", "provision", "migrate", "keys")
ROLES = tuple(f"det-{CLUSTER}-{name}" for name in FUNCTIONS)
MIRRORS = (os.environ.get("TF_PLUGIN_MIRROR", ""), "/opt/tf-plugins")
CONFIG = """
name: in-the-box
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {batches: 1}}
resources: {slots_per_trial: 1}
max_restarts: 0
"""


@dataclass
class Deployed:
    """The operator's terminal, the account, and the role policies that Terraform applied."""

    box: Box
    environment: Mapping[str, str]
    folder: Path
    outputs: dict[str, Any] = field(default_factory=dict)

    def det(self, *args: str, code: int = 0, environ: Mapping[str, str] | None = None) -> Answer:
        done = subprocess.run(
            [*DET, *args], env={**self.environment, **(environ or {})}, cwd=self.folder, capture_output=True,
            text=True, timeout=1100, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"det {' '.join(args)}: {done.stdout}{done.stderr}"
        return Answer(done.returncode, done.stdout, done.stderr)

    def deploy(self, verb: str, *more: str, code: int = 0) -> Answer:
        at = ("--region", REGION, "--endpoint-url", self.box.aws_url)
        return self.det("deploy", "aws", verb, *at, *more, code=code)

    def aws(self, service: str) -> Any:
        return boto3.client(service, region_name=REGION, endpoint_url=self.box.aws_url)

    def machines(self) -> list[dict[str, Any]]:
        only = [{"Name": "tag:determined-cluster", "Values": [CLUSTER]}]
        answer = self.aws("ec2").describe_instances(Filters=only)
        return [i for r in answer["Reservations"] for i in r["Instances"]]

    def policy(self, function: str) -> Policy:
        role = f"det-{CLUSTER}-{function}"
        found = self.aws("iam").get_role_policy(RoleName=role, PolicyName="function")
        return Policy(found["PolicyDocument"])


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory, postgres_server: Any) -> Iterator[Deployed]:
    mirror = next((place for place in MIRRORS if place and Path(place).is_dir()), "")
    if not mirror or not shutil.which("terraform"):
        skip(TERRAFORM, "terraform, and TF_PLUGIN_MIRROR=a filesystem mirror with hashicorp/aws")
    folder = tmp_path_factory.mktemp("deploy")
    with (
        postgres_server.database(template="template1") as database_url,
        terraform_mirror(mirror) as configuration,
        aws_box(folder / "functions", database_url, ROLES) as box,
    ):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("DET_")}
        home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "NO_COLOR": "1"}
        yield Deployed(box, {**kept, **home, "TF_CLI_CONFIG_FILE": configuration}, folder)


def test_a_cluster_is_made_used_and_removed_without_a_trace(deployed: Deployed) -> None:
    said = deployed.deploy(
        "up", "--cluster-id", CLUSTER, "--yes", "--compute-agent-instance-type", "g4dn.xlarge",
        "--var", "database=rds", "--var", "bucket_lifecycle=false", "--var", "keep_data=false",
    ).out  # fmt: skip
    password = re.search(r"until you change it: (\S+)", said)
    assert password, said
    assert f"export DET_MASTER={deployed.box.front_url}" in said
    check_what_was_made(deployed)

    master = {"DET_MASTER": deployed.box.front_url, "DET_USER": "admin", "DET_PASS": password[1]}
    create_experiment(deployed, master)
    check_machine(deployed)
    check_rights(deployed)

    status = json.loads(deployed.deploy("status", "--cluster-id", CLUSTER, "--json").out)
    assert (status["answers"], status["machines"]) == (True, 1)
    assert deployed.deploy("list").out.split() == [CLUSTER]
    refused = deployed.deploy("down", "--cluster-id", CLUSTER, "--yes", code=1)
    assert "1 machines of the cluster are running" in refused.err

    deployed.deploy("down", "--cluster-id", CLUSTER, "--yes", "--force", "--delete-data")
    check_nothing_is_left(deployed)


def check_what_was_made(deployed: Deployed) -> None:
    """Look at what functions were told, and at the schedules that call them."""
    told = deployed.box.described[f"det-{CLUSTER}-migrate"]
    database = urlsplit(told["DET_DB_URL"])
    assert (database.username, database.port, database.path) == ("determined", 5432, "/determined")
    assert len(database.password or "") == 40
    schedules = deployed.aws("scheduler").list_schedules()["Schedules"]
    names = {schedule["Name"] for schedule in schedules}
    assert names == {f"det-{CLUSTER}-tick", f"det-{CLUSTER}-provision"}
    for schedule in schedules:
        assert schedule["Target"]["Arn"].endswith(f":function:{schedule['Name']}:live")


def create_experiment(deployed: Deployed, master: Mapping[str, str]) -> None:
    context = deployed.folder / "context"
    context.mkdir()
    (context / "train.py").write_text("print('trained')\n")
    (deployed.folder / "config.yaml").write_text(CONFIG)
    said = deployed.det("experiment", "create", "config.yaml", "context", environ=master).out
    assert "Created experiment 1" in said


def check_machine(deployed: Deployed) -> None:
    """Wait for the machine of the experiment: the schedule's part is played where functions do not start each other."""
    functions = deployed.aws("lambda")
    limit = time.monotonic() + 60
    while not deployed.machines():
        assert time.monotonic() < limit, f"no machine came: {deployed.box.failed}"
        for name in ("tick", "provision"):
            functions.invoke(
                FunctionName=f"det-{CLUSTER}-{name}", Payload=b'{"source": "schedule"}'
            )
    deployed.box.settle()
    assert deployed.box.failed == []
    (machine,) = deployed.machines()
    assert machine["InstanceType"] == "g4dn.xlarge"
    (template,) = deployed.aws("ec2").describe_launch_templates()["LaunchTemplates"]
    (version,) = deployed.aws("ec2").describe_launch_template_versions(
        LaunchTemplateId=template["LaunchTemplateId"]
    )["LaunchTemplateVersions"]
    profile = version["LaunchTemplateData"]["IamInstanceProfile"]["Arn"]
    assert profile.endswith(f"instance-profile/det-{CLUSTER}-machine")


def check_rights(deployed: Deployed) -> None:
    """Hold every call of the functions against the policy of the role that made it."""
    recorder = deployed.box.recorder
    policies = {role: deployed.policy(role.removeprefix(f"det-{CLUSTER}-")) for role in ROLES}
    denied = [call for call in recorder.calls if not policies[call.caller].allows(call)]
    assert denied == []
    made = {(call.caller, call.action) for call in recorder.calls}
    assert (f"det-{CLUSTER}-provision", "ec2:RunInstances") in made or (
        f"det-{CLUSTER}-provision", "ec2:CreateFleet") in made  # fmt: skip
    assert (f"det-{CLUSTER}-api", "lambda:InvokeFunction") in made
    for function in ("api", "tick", "migrate"):
        of_machines = {a for a in deployed.policy(function).actions() if a.startswith("ec2:")}
        assert of_machines <= {
            "ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
            "ec2:DeleteNetworkInterface", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
        }, f"{function} may do more than join the network"  # fmt: skip


def check_nothing_is_left(deployed: Deployed) -> None:
    assert [m for m in deployed.machines() if m["State"]["Name"] != "terminated"] == []
    tagged = deployed.aws("resourcegroupstaggingapi").get_resources(
        TagFilters=[{"Key": "determined-cluster", "Values": [CLUSTER]}]
    )["ResourceTagMappingList"]
    alive = [r["ResourceARN"] for r in tagged if ":instance/" not in r["ResourceARN"]]
    assert alive == []
    assert deployed.aws("ec2").describe_launch_templates()["LaunchTemplates"] == []
    assert deployed.aws("lambda").list_functions()["Functions"] == []
    roles = [role["RoleName"] for role in deployed.aws("iam").list_roles()["Roles"]]
    assert [name for name in roles if name.startswith(f"det-{CLUSTER}")] == []
    buckets = [bucket["Name"] for bucket in deployed.aws("s3").list_buckets()["Buckets"]]
    assert [name for name in buckets if not name.startswith("determined-state-")] == []
    assert deployed.deploy("list").out == ""
