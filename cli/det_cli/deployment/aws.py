"""A cluster on AWS: build what Lambda runs, apply the stack, migrate, and prove that it answers; and remove it all."""

import json
import re
import secrets
import string
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from determined.common.http import APIError, MasterUnreachableError, Session
from determined.common.sign_in import login

from det_cli.deployment.terraform import Terraform
from det_cli.errors import CommandError, MissingError, UsageError

CLUSTER_ID = re.compile(r"[a-zA-Z][-a-zA-Z0-9]{0,30}")
TAG = "determined-cluster"
RDS_CERTIFICATES = "https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem"
_HEALTH_S = 120.0
_GONE_S = 600.0
_MIGRATION_S = 900
# What the answer about data concerns: Terraform deletes by what it was told when it last applied.
_DATA = (
    "module.storage.aws_s3_bucket.this",
    "module.database.aws_rds_cluster.this",
    "module.database.aws_db_instance.this",
)
_PASSWORD_CHARACTERS = string.ascii_letters + string.digits

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """A cluster as the operator describes it."""

    cluster_id: str
    region: str
    config: dict[str, Any] = field(default_factory=dict)  # of the cluster, as in master.yaml
    variables: dict[str, Any] = field(default_factory=dict)  # of the Terraform stack
    password: str = ""
    endpoint_url: str = ""  # of AWS itself, for trials without it

    def __post_init__(self) -> None:
        if not CLUSTER_ID.fullmatch(self.cluster_id):
            raise UsageError(
                f"--cluster-id {self.cluster_id!r} must be a letter, then at most 30 letters, digits and hyphens"
            )


class Aws:
    """The operator's AWS account, in one region."""

    def __init__(self, region: str, endpoint_url: str = "") -> None:
        self.region = region
        self.endpoint_url = endpoint_url

    def client(self, service: str, read_timeout_s: int = 60) -> Any:
        import boto3
        from botocore.config import Config

        endpoint = {"endpoint_url": self.endpoint_url} if self.endpoint_url else {}
        config = Config(read_timeout=read_timeout_s)
        return boto3.client(service, region_name=self.region, config=config, **endpoint)

    @cached_property
    def account(self) -> str:
        """Return the account's number. Raises CommandError when there are no credentials that AWS accepts."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        hint = "`aws configure` or `aws sso login`, or set AWS_PROFILE; `aws sts get-caller-identity` checks it"
        try:
            return str(self.client("sts").get_caller_identity()["Account"])
        except NoCredentialsError:
            raise CommandError("there are no AWS credentials", hint) from None
        except (BotoCoreError, ClientError) as e:
            raise CommandError(f"AWS does not accept the credentials: {e}", hint) from e

    @property
    def state_bucket(self) -> str:
        return f"determined-state-{self.account}-{self.region}"

    def make_state_bucket(self) -> None:
        """Make the bucket of Terraform's states, if this is the account's first cluster in the region."""
        s3 = self.client("s3")
        if self.has_bucket(self.state_bucket):
            return
        where = (
            {}
            if self.region == "us-east-1"
            else {"CreateBucketConfiguration": {"LocationConstraint": self.region}}
        )
        s3.create_bucket(Bucket=self.state_bucket, **where)
        s3.put_public_access_block(
            Bucket=self.state_bucket,
            PublicAccessBlockConfiguration={
                "BlockPublicAcls": True, "IgnorePublicAcls": True,
                "BlockPublicPolicy": True, "RestrictPublicBuckets": True,
            },
        )  # fmt: skip
        s3.put_bucket_versioning(
            Bucket=self.state_bucket, VersioningConfiguration={"Status": "Enabled"}
        )

    def has_bucket(self, name: str) -> bool:
        from botocore.exceptions import ClientError

        try:
            self.client("s3").head_bucket(Bucket=name)
        except ClientError as e:
            if e.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return False
            raise CommandError(
                f"the bucket {name} cannot be used: {e}", "ask for s3 rights on it"
            ) from e
        return True

    def clusters(self) -> list[str]:
        """Return the clusters that this account has in the region, as their states say."""
        if not self.has_bucket(self.state_bucket):
            return []
        pages = (
            self.client("s3").get_paginator("list_objects_v2").paginate(Bucket=self.state_bucket)
        )
        keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return sorted(k.removesuffix("/state") for k in keys if k.endswith("/state"))

    def machines(self, cluster_id: str) -> list[str]:
        """Return the rented machines of a cluster that are not gone."""
        filters = [
            {"Name": f"tag:{TAG}", "Values": [cluster_id]},
            {
                "Name": "instance-state-name",
                "Values": ["pending", "running", "stopping", "stopped"],
            },
        ]
        pages = self.client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        return [
            i["InstanceId"] for page in pages for r in page["Reservations"] for i in r["Instances"]
        ]

    def terminate(self, machines: Sequence[str]) -> None:
        for start in range(0, len(machines), 100):
            self.client("ec2").terminate_instances(InstanceIds=list(machines[start : start + 100]))

    def remove_launch_templates(self, cluster_id: str) -> None:
        """Delete what the cluster itself made to rent machines by; Terraform does not know of it."""
        ec2 = self.client("ec2")
        ours = [{"Name": f"tag:{TAG}", "Values": [cluster_id]}]
        for page in ec2.get_paginator("describe_launch_templates").paginate(Filters=ours):
            for template in page["LaunchTemplates"]:
                ec2.delete_launch_template(LaunchTemplateId=template["LaunchTemplateId"])

    def stop_function(self, name: str) -> None:
        """Let a function not run again, if it is still there."""
        functions = self.client("lambda")
        try:
            functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
        except functions.exceptions.ResourceNotFoundException:
            return


class Deployment:
    """One cluster of an account."""

    def __init__(self, wanted: Wanted, say: Say) -> None:
        self._wanted = wanted
        self._say = say
        self.aws = Aws(wanted.region, wanted.endpoint_url)

    def up(self) -> dict[str, Any]:
        """Create the cluster, or bring it up to date; returns its outputs. Interrupted, it goes on when repeated."""
        self._config()  # before anything is made
        with self._stack() as stack:
            # The stack keeps the first password that it was given, also over an interruption.
            password = self._wanted.password or _password()
            variables = {**self._variables(stack.folder), "initial_user_password": password}
            self._take_over_bucket(stack.terraform, variables)
            stack.terraform.apply(variables, self._say)
            outputs = stack.terraform.outputs()
        self._say("Migrating the database")
        self._migrate(outputs)
        self._check_health(str(outputs["url"]))
        password = str(outputs.pop("initial_user_password"))
        if not self._wanted.password and _signs_in(str(outputs["url"]), password):
            outputs["first_password"] = password
        return outputs

    def plan(self) -> None:
        """Tell what `up` would do, and do nothing."""
        with self._stack(keep_state=self._wanted.cluster_id in self._known()) as stack:
            variables = {**self._variables(stack.folder), "initial_user_password": "unknown"}
            stack.terraform.plan(variables, self._say)

    def down(self, *, force: bool, keep_data: bool) -> None:
        """Remove everything of the cluster, and prove it."""
        wanted = self._wanted
        if wanted.cluster_id not in self._known():
            known = ", ".join(self._known()) or "none"
            raise MissingError(
                f"there is no cluster {wanted.cluster_id} in {wanted.region}; clusters here: {known}"
            )
        machines = self.aws.machines(wanted.cluster_id)
        if machines and not force:
            raise CommandError(
                f"{len(machines)} machines of the cluster are running: {', '.join(machines[:5])}",
                "pause its experiments and wait, or give --force",
            )
        with self._stack() as stack:
            self._stop_renting(stack.terraform.outputs())
            self._end_machines()
            self._remove(stack, keep_data)
        self.aws.remove_launch_templates(wanted.cluster_id)
        left = self.aws.machines(wanted.cluster_id)
        if left:
            raise CommandError(
                f"machines of the cluster are left: {', '.join(left)}",
                "run the same command again, with --force",
            )
        self._forget_state()

    def _remove(self, stack: "_Stack", keep_data: bool) -> None:
        variables = {
            **self._variables(stack.folder, build=False),
            "keep_data": keep_data,
            "initial_user_password": "unknown",
            "removal": time.strftime("%Y%m%d%H%M%S", time.gmtime()),
        }
        made = stack.terraform.resources()
        decided = [name for name in _DATA if name in made]
        if decided:
            stack.terraform.apply(variables, self._say, only=decided)
        if keep_data:
            stack.terraform.forget([name for name in made if name.startswith("module.storage.")])
        stack.terraform.destroy(variables, self._say)

    def _take_over_bucket(self, terraform: Terraform, variables: dict[str, Any]) -> None:
        """Take back the bucket that an earlier cluster of this name left behind."""
        address, name = _DATA[0], self._bucket()
        if address not in terraform.resources() and self.aws.has_bucket(name):
            self._say(f"Taking over the bucket {name}")
            terraform.take_over(variables, address, name)

    def status(self) -> dict[str, Any]:
        """Return the address of the cluster, whether it answers, and how many machines it rents."""
        if self._wanted.cluster_id not in self._known():
            raise MissingError(
                f"there is no cluster {self._wanted.cluster_id} in {self._wanted.region}"
            )
        with self._stack() as stack:
            outputs = stack.terraform.outputs()
        outputs.pop("initial_user_password", None)
        found = {"cluster": self._wanted.cluster_id, "region": self._wanted.region, **outputs}
        found["machines"] = len(self.aws.machines(self._wanted.cluster_id))
        found["answers"] = bool(outputs.get("url")) and _answers(str(outputs["url"]))
        return found

    def _known(self) -> list[str]:
        return self.aws.clusters()

    def _stack(self, *, keep_state: bool = True) -> "_Stack":
        if keep_state:
            self.aws.make_state_bucket()
        return _Stack(self, keep_state)

    def backend(self) -> dict[str, str]:
        """Return where Terraform keeps the state of this cluster, and locks it."""
        backend = {
            "bucket": self.aws.state_bucket, "key": f"{self._wanted.cluster_id}/state",
            "region": self.aws.region, "encrypt": "true", "use_lockfile": "true",
        }  # fmt: skip
        if self.aws.endpoint_url:
            url = self.aws.endpoint_url
            endpoints = ", ".join(f'{name}="{url}"' for name in ("s3", "sts", "iam", "dynamodb"))
            backend |= {"endpoints": f"{{{endpoints}}}", "use_path_style": "true"}
        return backend

    def _variables(self, folder: Path, *, build: bool = True) -> dict[str, Any]:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        made = self._zip(folder) if build else _empty_zip(folder)
        variables = {
            "cluster_id": self._wanted.cluster_id, "region": self._wanted.region, "zip": str(made),
            "runtime": version, **self._wanted.variables,
        }  # fmt: skip
        if self._wanted.endpoint_url:
            variables |= {"endpoint_url": self._wanted.endpoint_url, "database_ca": ""}
        return variables

    def _config(self) -> dict[str, Any]:
        """Return the cluster's configuration. Raises UsageError where functions would refuse it."""
        try:
            from det_controlplane.core.config.cluster import load_cluster
            from det_controlplane.core.problems import InvalidConfig
        except ModuleNotFoundError as e:
            raise _missing(e) from e
        storage = {"type": "s3", "bucket": self._bucket()}
        config = {"checkpoint_storage": storage, **self._wanted.config}
        try:
            load_cluster(config)
        except InvalidConfig as e:
            raise UsageError(str(e)) from e
        return config

    def _zip(self, folder: Path) -> Path:
        self._say("Building the functions")
        try:
            from det_controlplane.entry.aws import packaging
        except ModuleNotFoundError as e:
            raise _missing(e) from e
        files = {"cluster.yaml": yaml.safe_dump(self._config(), sort_keys=False).encode()}
        if not self._wanted.endpoint_url:
            files["rds-ca.pem"] = _fetch(RDS_CERTIFICATES)
        try:
            return packaging.build(folder, files)
        except packaging.PackagingFailed as e:
            raise CommandError(str(e)) from e

    def _bucket(self) -> str:
        name = f"det-{self._wanted.cluster_id}-{self._wanted.region}-{self.aws.account}"
        return str(self._wanted.variables.get("bucket") or name.lower())

    def _migrate(self, outputs: dict[str, Any]) -> None:
        # Asked once and patiently: a repeated call would find the first one still at work.
        functions = self.aws.client("lambda", read_timeout_s=_MIGRATION_S + 10)
        answer = functions.invoke(FunctionName=outputs["functions"]["migrate"], Payload=b"{}")
        if "FunctionError" in answer:
            told = json.loads(answer["Payload"].read() or b"{}")
            raise CommandError(
                f"the migration of the database failed: {told.get('errorMessage', 'no reason given')}",
                "the previous functions go on; mend the cause and run the same command again",
            )

    def _check_health(self, url: str) -> None:
        """Wait until the cluster answers: a database that was paused takes a moment."""
        self._say(f"Waiting for {url}")
        limit = time.monotonic() + _HEALTH_S
        while not _answers(url):
            if time.monotonic() > limit:
                raise CommandError(
                    f"the cluster does not answer at {url}",
                    f"the log group /aws/lambda/det-{self._wanted.cluster_id}-api says why",
                )
            time.sleep(2)

    def _stop_renting(self, outputs: dict[str, Any]) -> None:
        """Let no function rent another machine."""
        name = (outputs.get("functions") or {}).get("provision")
        if name:
            self.aws.stop_function(name)

    def _end_machines(self) -> None:
        machines = self.aws.machines(self._wanted.cluster_id)
        if not machines:
            return
        self._say(f"Ending {len(machines)} machines")
        self.aws.terminate(machines)
        limit = time.monotonic() + _GONE_S
        while left := self.aws.machines(self._wanted.cluster_id):
            if time.monotonic() > limit:
                raise CommandError(f"machines do not end: {', '.join(left)}", "look at them in EC2")
            time.sleep(5)

    def _forget_state(self) -> None:
        self.aws.client("s3").delete_object(
            Bucket=self.aws.state_bucket, Key=f"{self._wanted.cluster_id}/state"
        )


class _Stack:
    """Terraform in a folder that is gone afterwards."""

    def __init__(self, deployment: Deployment, keep_state: bool) -> None:
        self._deployment = deployment
        self._keep_state = keep_state
        self._temporary = tempfile.TemporaryDirectory(prefix="det-deploy-")

    def __enter__(self) -> "_Stack":
        self.folder = Path(self._temporary.name)
        try:
            self.terraform = Terraform("aws", self.folder)
            self.terraform.init(self._deployment.backend() if self._keep_state else {})
        except BaseException:
            self._temporary.cleanup()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._temporary.cleanup()


def _missing(e: ModuleNotFoundError) -> CommandError:
    return CommandError(f"{e.name} is missing", "pip install 'determined-serverless[aws]'")


def _password() -> str:
    return "".join(secrets.choice(_PASSWORD_CHARACTERS) for _ in range(20))


def _empty_zip(folder: Path) -> Path:
    import zipfile

    path = folder / "empty.zip"
    zipfile.ZipFile(path, "w").close()
    return path


def _fetch(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return bytes(answer.read())
    except OSError as e:
        raise CommandError(
            f"{url} cannot be fetched: {e}", "it holds the certificates of RDS"
        ) from e


def _answers(url: str) -> bool:
    try:
        Session(url, retries=0).get("/info")
    except (APIError, MasterUnreachableError):
        return False
    return True


def _signs_in(url: str, password: str) -> bool:
    """Tell whether the first password still holds."""
    try:
        login(Session(url, retries=0), "admin", password)
    except (APIError, MasterUnreachableError):
        return False
    return True


def describe(outputs: dict[str, Any]) -> Iterator[str]:
    """Tell the operator how to use the new cluster."""
    yield f"The cluster answers at {outputs['url']}"
    if "first_password" in outputs:
        yield f"Password of admin and determined, until you change it: {outputs['first_password']}"
    yield ""
    yield "next:"
    yield f"  export DET_MASTER={outputs['url']}"
    yield "  det user login admin"
