"""A cluster that `det deploy aws` makes in a box: the operator's terminal, and an account served by moto."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from tests.support.aws_box import REGION, Box, aws_box, terraform_mirror
from tests.support.aws_databases import holding
from tests.support.aws_rights import Policy
from tests.support.cloudbox import box as clouds
from tests.support.cloudbox.machine import BARE
from tests.support.cluster import DET, Answer
from tests.support.skips import TERRAFORM, skip

CLUSTER = "box"
FUNCTIONS = ("api", "tick", "provision", "migrate", "keys")
ROLES = tuple(f"det-{CLUSTER}-{name}" for name in FUNCTIONS)
OPERATOR = "operator"  # an access key
MIRRORS = (os.environ.get("TF_PLUGIN_MIRROR", ""), "/opt/tf-plugins")


@dataclass
class Deployment:
    """The operator's terminal, the account, and the role policies that Terraform applied."""

    box: Box
    clouds: clouds.Box  # where the machines of the account boot
    environment: Mapping[str, str]
    folder: Path

    def det(
        self,
        *args: str,
        code: int = 0,
        environ: Mapping[str, str] | None = None,
        timeout_s: float = 1100,
    ) -> Answer:
        result = subprocess.run(
            [*DET, *args], env={**self.environment, **(environ or {})}, cwd=self.folder, capture_output=True,
            text=True, timeout=timeout_s, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        assert result.returncode == code, f"det {' '.join(args)}: {result.stdout}{result.stderr}"
        return Answer(result.returncode, result.stdout, result.stderr)

    def deploy(self, verb: str, *more: str, code: int = 0, timeout_s: float = 1100) -> Answer:
        at = ("--region", REGION, "--endpoint-url", self.box.aws_url)
        return self.det("deploy", "aws", verb, *at, *more, code=code, timeout_s=timeout_s)

    def aws(self, service: str) -> Any:
        return boto3.client(service, region_name=REGION, endpoint_url=self.box.aws_url)

    def machines(self) -> list[dict[str, Any]]:
        only = [{"Name": "tag:determined-cluster", "Values": [CLUSTER]}]
        answer = self.aws("ec2").describe_instances(Filters=only)
        return [i for r in answer["Reservations"] for i in r["Instances"]]

    def policy(self, function: str) -> Policy:
        role = f"det-{CLUSTER}-{function}"
        matching_policy = self.aws("iam").get_role_policy(RoleName=role, PolicyName="function")
        return Policy(matching_policy["PolicyDocument"])

    def turn(self) -> None:
        """Play the schedules, which moto does not."""
        for name in ("tick", "provision"):
            self.aws("lambda").invoke(
                FunctionName=f"det-{CLUSTER}-{name}", Payload=b'{"source": "schedule"}'
            )


@contextmanager
def deployed_aws(folder: Path, postgres_server: Any) -> Iterator[Deployment]:
    """Serve an account without a cluster; skip the test where Terraform or its provider is missing."""
    mirror = next((place for place in MIRRORS if place and Path(place).is_dir()), "")
    if not mirror or not shutil.which("terraform"):
        skip(TERRAFORM, "terraform, and TF_PLUGIN_MIRROR=a filesystem mirror with hashicorp/aws")
    with (
        postgres_server.empty_database() as database_url,
        terraform_mirror(mirror) as configuration,
        holding(postgres_server, database_url),
        aws_box(folder / "functions", database_url, ROLES, OPERATOR) as box,
        clouds.machines_of(
            folder / "machines", int(box.front_url.rpartition(":")[2]), box.aws_url
        ) as machines,
    ):
        box.proxies = machines.environment
        box.sandboxes = 4  # a log that is followed holds one, and agents call meanwhile
        machines.images[machines.image_id()] = BARE
        environment = {k: v for k, v in os.environ.items() if not k.startswith("DET_")}
        home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "NO_COLOR": "1"}
        environment["AWS_ACCESS_KEY_ID"] = OPERATOR
        environment["DET_DOCKER_HUB"] = "http://127.0.0.1:9"  # no registry of the internet is asked
        yield Deployment(
            box, machines, {**environment, **home, "TF_CLI_CONFIG_FILE": configuration}, folder
        )
