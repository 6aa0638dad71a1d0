"""A cluster on AWS: functions of Lambda over a database of RDS."""

import json
import re
import sys
import urllib.request
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from det_cli.deployment import aws_preflight, prices
from det_cli.deployment.cluster import Deployment, Say, Stack, Wanted
from det_cli.deployment.terraform import Backend
from det_cli.errors import CommandError, UsageError

CLUSTER_ID = re.compile(r"[a-zA-Z][-a-zA-Z0-9]{0,30}")
TAG = "determined-cluster"
RDS_CERTIFICATES = "https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem"
_MIGRATION_S = 900
GOOGLE_FILE = "gcp-credentials.json"
_RELAY = "module.relay"
# CloudFront makes it in a network with its first VPC origin there, and leaves it; no network goes before it.
_ORIGIN_GROUP = "CloudFront-VPCOrigins-Service-SG"
_LIVE = "live"  # the alias of what requests and schedules reach
_NEWEST_VERSIONS = 3  # of each function, which an upgrade leaves
_CONCURRENCY = 50  # of the API, unless a variable of the stack says otherwise


class Aws:
    """The operator's AWS account, in one region."""

    def __init__(self, region: str, endpoint_url: str = "", profile: str = "") -> None:
        self.region = region
        self.endpoint_url = endpoint_url
        self.profile = profile

    def client(self, service: str, read_timeout_s: int = 60) -> Any:
        from botocore.config import Config

        endpoint = {"endpoint_url": self.endpoint_url} if self.endpoint_url else {}
        config = Config(read_timeout=read_timeout_s)
        return self._session.client(service, region_name=self.region, config=config, **endpoint)

    @cached_property
    def _session(self) -> Any:
        import boto3

        return boto3.session.Session(profile_name=self.profile or None)

    @cached_property
    def account(self) -> str:
        """Return the account's number. Raises CommandError when there are no credentials that AWS accepts."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        hint = "`aws configure` or `aws sso login`, or set AWS_PROFILE; `aws sts get-caller-identity` checks it"
        try:
            return str(self.client("sts").get_caller_identity()["Account"])
        except NoCredentialsError:
            raise CommandError("there are no AWS credentials", hint) from None
        except ClientError as e:
            if e.response.get("Error", {}).get("Code") in ("ExpiredToken", "ExpiredTokenException"):
                raise CommandError(
                    "the session at AWS has expired", "`aws sso login`, or sign in again"
                ) from e
            raise CommandError(f"AWS does not accept the credentials: {e}", hint) from e
        except BotoCoreError as e:
            raise CommandError(
                f"AWS cannot be asked in {self.region}: {e}",
                f"is {self.region} a region, and does this machine reach it?"
                " `aws sts get-caller-identity` asks the same",
            ) from e

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

    def state_of(self, machine: str) -> str:
        """Return whether a machine runs, in the words of EC2."""
        from botocore.exceptions import ClientError

        try:
            answer = self.client("ec2").describe_instances(InstanceIds=[machine])
            return str(answer["Reservations"][0]["Instances"][0]["State"]["Name"])
        except (ClientError, LookupError):
            return "gone"

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

    def origin_groups(self, cluster_id: str) -> list[str]:
        """Return the security groups that CloudFront made in the cluster's network."""
        ec2 = self.client("ec2")
        ours = [{"Name": f"tag:{TAG}", "Values": [cluster_id]}]
        networks = [vpc["VpcId"] for vpc in ec2.describe_vpcs(Filters=ours)["Vpcs"]]
        if not networks:
            return []
        made = [
            {"Name": "group-name", "Values": [_ORIGIN_GROUP]},
            {"Name": "vpc-id", "Values": networks},
        ]
        return [g["GroupId"] for g in ec2.describe_security_groups(Filters=made)["SecurityGroups"]]

    def backend(self, cluster_id: str) -> Backend:
        """Return where Terraform keeps the state of a cluster, and locks it."""
        settings = {
            "bucket": self.state_bucket, "key": f"{cluster_id}/state", "region": self.region,
            "encrypt": "true", "use_lockfile": "true",
        }  # fmt: skip
        if self.endpoint_url:
            services = ("s3", "sts", "iam", "dynamodb")
            endpoints = ", ".join(f'{name}="{self.endpoint_url}"' for name in services)
            settings |= {"endpoints": f"{{{endpoints}}}", "use_path_style": "true"}
        return Backend("s3", settings)

    def forget_state(self, cluster_id: str) -> None:
        for name in ("state", "options.json"):
            self.client("s3").delete_object(Bucket=self.state_bucket, Key=f"{cluster_id}/{name}")

    def options(self, cluster_id: str) -> dict[str, Any]:
        from botocore.exceptions import ClientError

        if not self.has_bucket(self.state_bucket):
            return {}
        try:
            kept = self.client("s3").get_object(
                Bucket=self.state_bucket, Key=f"{cluster_id}/options.json"
            )
        except ClientError as e:
            if e.response["Error"]["Code"] == "NoSuchKey":
                return {}
            raise CommandError(
                f"the options of the last time cannot be read: {e}", "ask for s3 rights on it"
            ) from e
        found: dict[str, Any] = json.loads(kept["Body"].read())
        return found

    def keep_options(self, cluster_id: str, options: Mapping[str, Any]) -> None:
        body, key = json.dumps(options).encode(), f"{cluster_id}/options.json"
        self.client("s3").put_object(
            Bucket=self.state_bucket, Key=key, Body=body, ServerSideEncryption="AES256"
        )

    def drop_versions(self, function: str, kept: Container[str]) -> None:
        """Delete published versions of a function, but its newest, those of its aliases and those to keep."""
        client = self.client("lambda")
        aliases = client.get_paginator("list_aliases").paginate(FunctionName=function)
        used = {str(alias["FunctionVersion"]) for page in aliases for alias in page["Aliases"]}
        pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
        names = [str(version["Version"]) for page in pages for version in page["Versions"]]
        published = sorted((name for name in names if name.isdigit()), key=int)
        for version in published[:-_NEWEST_VERSIONS]:
            if version not in used and version not in kept:
                client.delete_function(FunctionName=function, Qualifier=version)

    def stop_function(self, name: str) -> None:
        """Let a function not run again, if it is still there."""
        functions = self.client("lambda")
        try:
            functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
        except functions.exceptions.ResourceNotFoundException:
            return


class AwsDeployment(Deployment):
    """One cluster of an AWS account."""

    stack = "aws"
    data = (
        "module.storage.aws_s3_bucket.this",
        "module.database.aws_rds_cluster.this",
        "module.database.aws_db_instance.this",
    )
    storage_type = "s3"
    account: Aws

    def __init__(
        self,
        wanted: Wanted,
        say: Say,
        google_credentials: str = "",
        *,
        preflight: bool = True,
        keypair: str = "",
    ) -> None:
        if not CLUSTER_ID.fullmatch(wanted.cluster_id):
            raise UsageError(
                f"--cluster-id {wanted.cluster_id!r} must be a letter, then at most 30 letters, digits and hyphens"
            )
        super().__init__(wanted, say)
        self._google_file = google_credentials
        self._preflight = preflight
        self._keypair = keypair
        self.account = Aws(wanted.region, wanted.endpoint_url, wanted.profile)
        self._before: dict[str, str] = {}

    def _check(self) -> None:
        self._google_credentials()
        config = self._config()
        aws_preflight.check_budget(self._wanted.variables)
        if self._has_relay():
            aws_preflight.check_python_of_a_relay(self._runtime())
        if not self._preflight:
            return
        if self._keypair:
            aws_preflight.check_keypair(self.account, self._keypair)
        has_limits = not self._wanted.endpoint_url  # an AWS that is not Amazon's has none to tell
        if self._wanted.cluster_id not in self.account.clusters():
            pools = config.get("resource_pools") or ()
            aws_preflight.check_place(self.account, self._wanted.cluster_id, pools)
            if has_limits:
                most = int(self._wanted.variables.get("api_concurrency", _CONCURRENCY))
                aws_preflight.check_limits(self.account, pools, most, self._say)
        if has_limits and self._has_relay() and not self._had_relay():
            aws_preflight.check_rights(self.account, aws_preflight.ACTIONS_FOR_A_RELAY)

    def plan(self) -> None:
        self._check()
        super().plan()

    def environment(self) -> dict[str, str]:
        return {"AWS_PROFILE": self._wanted.profile} if self._wanted.profile else {}

    def prices(self) -> Iterator[str]:
        given = self._wanted.variables
        names = ("database", "database_instance_class", "log_retention_days", "relay")
        stack = prices.AwsStack(**{name: given[name] for name in names if name in given})
        return prices.month(prices.aws_idle(stack), self._config())

    def _variables(self, folder: Path, *, build: bool = True) -> dict[str, Any]:
        made = self._zip(folder) if build else _empty_zip(folder)
        variables = {
            "cluster_id": self._wanted.cluster_id, "region": self._wanted.region, "zip": str(made),
            "keys_zip": str(made.with_name("keys.zip") if build else made), "runtime": self._runtime(),
            **self._wanted.variables,
        }  # fmt: skip
        projects = _google_projects(self._config())
        if projects:
            variables |= {
                "google_project": projects[0], "google_credentials": f"/var/task/{GOOGLE_FILE}",
                "provision_zip": str(made.with_name("provision.zip") if build else made),
            }  # fmt: skip
        if self._has_relay():
            variables["relay_zip"] = str(made.with_name("relay.zip") if build else made)
        if self._wanted.endpoint_url:
            variables |= {"endpoint_url": self._wanted.endpoint_url, "database_ca": ""}
        return variables

    def _zip(self, folder: Path) -> Path:
        self._say("Building the functions")
        try:
            from det_controlplane.entry.aws import packaging
        except ModuleNotFoundError as e:
            raise self._missing(e) from e
        files = {"cluster.yaml": yaml.safe_dump(self._config(), sort_keys=False).encode()}
        if not self._wanted.endpoint_url:
            files["rds-ca.pem"] = _fetch(RDS_CERTIFICATES)
        google = self._google_credentials()
        if google is not None:
            files[GOOGLE_FILE] = google
        try:
            more = {"google": google is not None, "relay": self._has_relay()}
            return packaging.build(
                folder, files, **{name: True for name, is_on in more.items() if is_on}
            )
        except packaging.PackagingFailed as e:
            raise CommandError(str(e)) from e

    def _has_relay(self) -> bool:
        return bool(self._wanted.variables.get("relay", False))

    def _had_relay(self) -> bool:
        kept = self.account.options(self._wanted.cluster_id).get("var") or ()
        earlier = dict(str(pair).split("=", 1) for pair in kept)
        return bool(yaml.safe_load(earlier.get("relay", "false")))

    def _runtime(self) -> str:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return str(self._wanted.variables.get("runtime") or version)

    def _google_credentials(self) -> bytes | None:
        """Return how functions sign in to Google Cloud, if a pool rents there. Raises UsageError."""
        if not _google_projects(self._config()):
            return None
        if not self._google_file:
            raise UsageError(
                "a pool rents machines from Google Cloud, and functions cannot sign in there",
                'give --google-credentials FILE: docs/guides/machines.md, "Across clouds", tells how to make it',
            )
        content = Path(self._google_file).read_bytes()
        try:
            kind = json.loads(content)["type"]
        except (ValueError, KeyError, TypeError):
            kind = ""
        if kind != "external_account":
            raise UsageError(
                f"{self._google_file} is no configuration of workload identity federation",
                "a key of a service account does not belong into functions; make a configuration without a secret",
            )
        return content

    def _place_of_machines(self) -> Mapping[str, Mapping[str, Any]]:
        return {"aws": {"region": self._wanted.region}}

    def _bucket(self) -> str:
        name = f"det-{self._wanted.cluster_id}-{self._wanted.region}-{self.account.account}"
        return str(self._wanted.variables.get("bucket") or name.lower())

    def status(self) -> dict[str, Any]:
        """Return what every cluster tells, and whether the relay's machine runs."""
        found = super().status()
        if found.get("relay"):
            found["relay"] = f"{found['relay']}: {self.account.state_of(found['relay'])}"
        return found

    def _settle(self, outputs: dict[str, Any]) -> None:
        self._say("Migrating the database")
        self._migrate(outputs)
        self._before = self._switch(outputs["functions"], outputs.get("versions") or {})

    def _roll_back(self, outputs: dict[str, Any]) -> bool:
        """Let requests reach the version before this one, if there is one."""
        versions = outputs.get("versions") or {}
        if all(self._before.get(name) == version for name, version in versions.items()):
            return False
        self._switch(outputs["functions"], self._before)
        return True

    def _switch(self, functions: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, str]:
        """Let requests and schedules reach these versions; return those that they reached before."""
        client, before = self.account.client("lambda"), {}
        for name in sorted(versions, reverse=True):  # the API, which starts the others, last
            function = {"FunctionName": functions[name], "Name": _LIVE}
            before[name] = str(client.get_alias(**function)["FunctionVersion"])
            if before[name] != versions[name]:
                client.update_alias(**function, FunctionVersion=versions[name])
        return before

    def _drop_old_versions(self, outputs: dict[str, Any]) -> None:
        """Delete what earlier deployments published: AWS keeps every version, and bounds their bytes."""
        from botocore.exceptions import BotoCoreError, ClientError

        for name in ("migrate", *outputs.get("versions", ())):
            function = outputs["functions"][name]
            try:
                self.account.drop_versions(function, kept={self._before.get(name, "")})
            except (BotoCoreError, ClientError) as e:
                self._say(f"warning: old versions of {function} stay: {e}")

    def _migrate(self, outputs: dict[str, Any]) -> None:
        # Asked once and patiently: a repeated call would find the first one still at work.
        functions = self.account.client("lambda", read_timeout_s=_MIGRATION_S + 10)
        answer = functions.invoke(FunctionName=outputs["functions"]["migrate"], Payload=b"{}")
        if "FunctionError" in answer:
            told = json.loads(answer["Payload"].read() or b"{}")
            raise CommandError(
                f"the migration of the database failed: {told.get('errorMessage', 'no reason given')}",
                "the previous functions go on; mend the cause and run the same command again",
            )

    def _stop_renting(self, stack: Stack, variables: dict[str, Any]) -> None:
        """Let no function rent another machine."""
        name = (stack.terraform.outputs().get("functions") or {}).get("provision")
        if name:
            self.account.stop_function(name)

    def _before_the_rest(
        self, stack: Stack, variables: dict[str, Any], made: Sequence[str]
    ) -> None:
        """Remove the relay, and then what CloudFront leaves of it in the network, also of an earlier one."""
        from botocore.exceptions import ClientError

        if any(name.startswith(_RELAY) for name in made):
            stack.terraform.destroy(variables, self._say, only=[_RELAY])
        for group in self.account.origin_groups(self._wanted.cluster_id):
            try:
                self.account.client("ec2").delete_security_group(GroupId=group)
            except ClientError as e:
                self._say(f"warning: {group}, which CloudFront made, stays for now: {e}")

    def _remove(self, stack: Stack, variables: dict[str, Any], keep_data: bool) -> None:
        try:
            super()._remove(stack, variables, keep_data)
        except CommandError as e:
            if "DependencyViolation" not in e.cause:
                raise
            groups = self.account.origin_groups(self._wanted.cluster_id)
            if not groups:
                raise
            raise CommandError(
                f"the network stays, as CloudFront has not let go of its security group {', '.join(groups)}",
                "run the same command again in some minutes: it removes the group and the network",
            ) from e

    def _clean_up(self) -> None:
        self.account.remove_launch_templates(self._wanted.cluster_id)

    def _where_logs_are(self) -> str:
        return f"the log group /aws/lambda/det-{self._wanted.cluster_id}-api says why"


def _google_projects(config: dict[str, Any]) -> list[str]:
    """Return the projects that pools rent in."""
    from det_controlplane.core.config.cluster import load_cluster

    sections = [
        section for pool in load_cluster(config).resource_pools for section in pool.sections
    ]
    return sorted({str(s.settings.get("project") or "") for s in sections if s.provider == "gcp"})


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
