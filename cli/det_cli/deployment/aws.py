"""A cluster on AWS: Lambda functions and an RDS database."""

import json
import os
import re
import shlex
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from det_cli.deployment import (
    aws_checks,
    aws_functions,
    aws_preflight,
    aws_service_roles,
    aws_snapshots,
    extras,
    prices,
    task_images,
)
from det_cli.deployment.aws_account import TAG, Aws
from det_cli.deployment.cluster import ClusterSpec, Deployment
from det_cli.deployment.fleet import Location, MachineAccount
from det_cli.deployment.pool_checks import GPU_IMAGE
from det_cli.deployment.prices import AwsStack, ControlPlaneCost
from det_cli.deployment.stack import Stack
from det_cli.errors import CommandError, UsageError
from det_cli.render import Say

CLUSTER_ID = re.compile(r"(?=.{1,31}$)[a-zA-Z](-?[a-zA-Z0-9])*")
RDS_CERTIFICATES = "https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem"
GOOGLE_FILE = "gcp-credentials.json"
_RELAY = "module.relay"
_LIVE = "live"  # the function alias that receives requests and schedules
_GLOBAL = "us-east-1"  # lists resources without a region, such as CloudFront distributions
_LISTED_S = 60.0
_UNGUARDED_S = 300.0  # time limit for the deletion of the endpoints' network interfaces


class AwsDeployment(Deployment):
    """A cluster in an AWS account."""

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
        spec: ClusterSpec,
        say: Say,
        google_credentials: str = "",
        *,
        preflight: bool = True,
        keypair: str = "",
        snapshot: str = "",
    ) -> None:
        super().__init__(spec, say)
        self._google_file = google_credentials
        self._preflight = preflight
        self._keypair = keypair
        self._snapshot_name = snapshot
        self._snapshot: aws_snapshots.Snapshot | None = (
            None  # the snapshot to restore into a new database
        )
        self.account = Aws(spec.region, spec.endpoint_url, spec.profile)
        self._before: dict[str, str] = {}

    def check_name(self) -> None:
        cluster_id = self._spec.cluster_id
        if not CLUSTER_ID.fullmatch(cluster_id):
            raise UsageError(
                f"--cluster-id {cluster_id!r} must be a letter followed by at most 30 letters, digits and single"
                " hyphens, and must not end with a hyphen"
            )

    def _check(self) -> None:
        self._google_credentials()
        config = self.config()
        aws_preflight.check_budget(self._spec.variables)
        aws_preflight.check_python(self._runtime())
        if self._has_url():
            aws_functions.check_sdk(self.account)
        self._snapshot = self._to_restore()
        if not self._preflight:
            return
        if self._has_relay():
            aws_checks.check_relay_region(self._spec.region)
        if self._keypair:
            aws_preflight.check_keypair(self.account, self._keypair)
        has_limits = not self._spec.endpoint_url  # an AWS emulator has no quotas
        cluster_id, zones = self._spec.cluster_id, self._spec.variables.get("zones") or ()
        rentals = aws_preflight.rentals_of(config, self._spec.region, zones)
        aws_preflight.check_place(self.account, rentals, self._say)
        aws_preflight.check_subnets(self.account, config)
        if cluster_id not in self.account.clusters():
            aws_preflight.check_name(self.account, cluster_id)
        if has_limits:
            aws_checks.check_account_plan(self.account, self._say)
            variables = {**self._spec.variables, **self._restored()}
            aws_checks.check_endpoints(self._spec.region, [r.region for r in rentals], variables)
            aws_preflight.check_limits(self.account, cluster_id, rentals, variables, self._say)
            for warning in aws_checks.key_warnings(
                self.account, config, variables.get("kms_key_arns") or ()
            ):
                self._say(f"warning: {warning}")
        task_images.check(config, self._say)

    def _to_restore(self) -> aws_snapshots.Snapshot | None:
        """Return the snapshot to restore, or None if the database already exists.

        Raises UsageError if a snapshot would replace an existing database.
        """
        name = self._snapshot_name
        if not name:
            return None
        if aws_snapshots.has_database(self.account, self._database):
            if self.account.options(self._spec.cluster_id).get("db_snapshot") == name:
                return None  # an earlier run restored this snapshot
            raise UsageError(
                f"the cluster already has a database, {self._database}, and a snapshot cannot replace it",
                "`det deploy aws down` removes it and keeps a final snapshot; or give another --cluster-id",
            )
        kind = str(self._spec.variables.get("database", "aurora"))
        return aws_snapshots.find(self.account, name, kind)

    def _restored(self) -> dict[str, Any]:
        return {"database_snapshot": self._snapshot.variable()} if self._snapshot else {}

    def _databases(self) -> list[str]:
        return [*([self._snapshot.database] if self._snapshot else []), *super()._databases()]

    def _prepare(self, stack: Stack, variables: dict[str, Any]) -> dict[str, Any]:
        rentals = aws_preflight.rentals_of(self.config())
        roles = aws_preflight.roles_of(rentals, self._spec.variables)
        aws_service_roles.create(self.account, roles, self._say)
        if self._has_url():  # before Terraform removes the permission that earlier versions created
            aws_functions.allow_url_calls(self.account, f"det-{self._spec.cluster_id}-api", _LIVE)
        if self._snapshot:
            self._say(f"Restoring the database from the snapshot {self._snapshot.name}")
            self._reuse_key(variables, self._snapshot.database)
        return {}

    def _apply(self, stack: Stack, variables: dict[str, Any]) -> None:
        """Apply the stack. Retry while AWS reports that a new service-linked role is not ready yet."""
        retry = aws_service_roles.RoleRetry()
        while True:
            try:
                return super()._apply(stack, variables)
            except CommandError as e:
                if not retry.waits_after(e):
                    raise
                self._say("Waiting until AWS services accept the new roles")

    def restore_command(self) -> str:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            last = aws_snapshots.last_of(self.account, self._database)
        except (BotoCoreError, ClientError):
            last = None
        if not last:
            return ""
        spec = self._spec
        words = [
            "det",
            "deploy",
            "aws",
            "up",
            "--cluster-id",
            spec.cluster_id,
            "--region",
            spec.region,
        ]
        options = [*(["--profile", spec.profile] if spec.profile else [])]
        options += ["--db-snapshot", last.name]
        variables = {
            "database": last.kind if last.kind != "aurora" else "",
            "bucket": spec.variables.get("bucket"),
        }
        options += [
            word
            for name, value in variables.items()
            if value
            for word in ("--var", f"{name}={value}")
        ]
        return shlex.join([*words, *options])

    def plan(self) -> None:
        self._check()
        super().plan()

    def environment(self) -> dict[str, str]:
        return {"AWS_PROFILE": self._spec.profile} if self._spec.profile else {}

    def prices(self) -> Iterator[str]:
        config, stack = self.config(), self._priced_stack()
        idle = prices.aws_idle(stack, prices.always_rented(config))
        return prices.month(idle, config, prices.choice_of_database(stack))

    def usd_hour(self) -> ControlPlaneCost:
        stack = self._priced_stack()
        awake = prices.awake_usd_hour() if stack.database == "aurora" else 0.0
        return prices.control_plane(prices.aws_idle(stack), awake)

    def _priced_stack(self) -> AwsStack:
        variables = self._spec.variables
        names = (
            "database",
            "database_instance_class",
            "log_retention_days",
            "relay",
            "machine_external_ip",
            "alarm_topic_arn",
        )
        return AwsStack(**{name: variables[name] for name in names if name in variables})

    def _variables(self, folder: Path, *, build: bool = True) -> dict[str, Any]:
        archive = self._zip(folder) if build else _empty_zip(folder)

        def zip_named(name: str) -> str:
            """Return a stable path for Terraform. A new path alone would create new function versions."""
            return os.path.relpath(archive.with_name(name) if build else archive, working_folder)

        working_folder = folder / "stacks" / self.stack
        variables = {
            "cluster_id": self._spec.cluster_id, "region": self._spec.region, "zip": zip_named(archive.name),
            "keys_zip": zip_named("keys.zip"), "runtime": self._runtime(), **self._restored(), **self._spec.variables,
        }  # fmt: skip
        variables = {**self._secrets_keys(), **variables}
        projects = _google_projects(self.config())
        if projects:
            variables |= {
                "google_project": projects[0], "google_credentials": f"/var/task/{GOOGLE_FILE}",
                "provision_zip": zip_named("provision.zip"),
            }  # fmt: skip
        if self._has_relay():
            variables["relay_zip"] = zip_named("relay.zip")
        if self._spec.endpoint_url:
            variables |= {"endpoint_url": self._spec.endpoint_url, "database_ca": ""}
        return variables

    def _zip(self, folder: Path) -> Path:
        self._say("Building the functions")
        try:
            from det_controlplane.entry.aws import packaging
        except ModuleNotFoundError as e:
            raise extras.missing(e.name, self.stack) from e
        files = {"cluster.yaml": yaml.safe_dump(self.config(), sort_keys=False).encode()}
        if not self._spec.endpoint_url:
            files["rds-ca.pem"] = _fetch(RDS_CERTIFICATES)
        google = self._google_credentials()
        if google is not None:
            files[GOOGLE_FILE] = google
        try:
            more: dict[str, Any] = {"google": google is not None, "relay": self._has_relay()}
            more["telemetry"] = bool((self.config().get("telemetry") or {}).get("otel_enabled"))
            more |= {name: self._spec.variables.get(name) for name in ("architecture", "runtime")}
            return packaging.build(
                folder, files, **{name: value for name, value in more.items() if value}
            )
        except ModuleNotFoundError as e:
            raise extras.missing(e.name, "telemetry") from e
        except packaging.PackagingFailed as e:
            raise CommandError(str(e)) from e

    def _has_relay(self) -> bool:
        return bool(self._spec.variables.get("relay", False))

    def _runtime(self) -> str:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return str(self._spec.variables.get("runtime") or version)

    def _google_credentials(self) -> bytes | None:
        """Return the credential file of the functions for Google Cloud, if a pool rents there. Raises UsageError."""
        if not _google_projects(self.config()):
            return None
        if not self._google_file:
            raise UsageError(
                "a pool rents machines on Google Cloud, but the functions have no credentials for it",
                'give --google-credentials FILE; docs/guides/machines.md, "Across clouds", explains how to create it',
            )
        content = Path(self._google_file).read_bytes()
        try:
            kind = json.loads(content)["type"]
        except (ValueError, KeyError, TypeError):
            kind = ""
        if kind != "external_account":
            raise UsageError(
                f"{self._google_file} is not a workload identity federation configuration",
                "do not give a service account key to the functions; create a configuration without a secret",
            )
        return content

    def _provider_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        return {
            "aws": {"region": self._spec.region},
            "gcp": {"boot_disk_source_image": GPU_IMAGE},
        }

    def _own_location(self) -> Location:
        return Location("aws", self._spec.region)

    def _account_at(self, location: Location) -> MachineAccount:
        if location.provider != "aws":
            return super()._account_at(location)
        return self.account.at(location.name)

    def _bucket(self) -> str:
        name = f"det-{self._spec.cluster_id}-{self._spec.region}-{self.account.account}"
        return str(self._spec.variables.get("bucket") or name.lower())

    def status(self) -> dict[str, Any]:
        """Return the cluster's status, including the state of the relay's machine."""
        status = super().status()
        if status.get("relay"):
            status["relay"] = f"{status['relay']}: {self.account.state_of(status['relay'])}"
        return status

    def _finish(self, outputs: dict[str, Any]) -> None:
        self._open_url(outputs["functions"])
        self._say("Migrating the database")
        aws_functions.migrate(self.account, outputs["functions"]["migrate"])
        self._before = self._switch(outputs["functions"], outputs.get("versions") or {})

    def _has_url(self) -> bool:
        return aws_functions.has_function_url(self._spec.variables.get("endpoint"))

    def _open_url(self, functions: Mapping[str, str]) -> None:
        """Allow requests to the function's URL, or only through API Gateway."""
        name = functions.get("api", f"det-{self._spec.cluster_id}-api")
        if not self._has_url():
            aws_functions.forbid_url_calls(self.account, name, _LIVE)
        elif not aws_functions.allow_url_calls(self.account, name, _LIVE):
            raise CommandError(
                f"the function {name} has no alias {_LIVE}",
                "run the same command again: Terraform creates it",
            )

    def _roll_back(self, outputs: dict[str, Any]) -> bool:
        """Switch requests back to the previous version. Return False without one."""
        versions = outputs.get("versions") or {}
        if all(self._before.get(name) == version for name, version in versions.items()):
            return False
        self._switch(outputs["functions"], self._before)
        return True

    def _switch(self, functions: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, str]:
        """Switch requests and schedules to these versions. Return the previous versions."""
        client, before = self.account.client("lambda"), {}
        for name in sorted(versions, reverse=True):  # the API last, because it invokes the others
            function = {"FunctionName": functions[name], "Name": _LIVE}
            before[name] = str(client.get_alias(**function)["FunctionVersion"])
            if before[name] != versions[name]:
                client.update_alias(**function, FunctionVersion=versions[name])
        return before

    def _drop_old_versions(self, outputs: dict[str, Any]) -> None:
        """Delete old versions of the functions, because AWS keeps all versions and limits their total size."""
        from botocore.exceptions import BotoCoreError, ClientError

        for name in ("migrate", *outputs.get("versions", ())):
            function = outputs["functions"][name]
            try:
                self.account.drop_versions(function, keep={self._before.get(name, "")})
            except (BotoCoreError, ClientError) as e:
                self._say(f"warning: old versions of {function} could not be deleted: {e}")

    def _stop_renting(self, stack: Stack, variables: dict[str, Any]) -> None:
        """Stop the function that rents machines."""
        name = (stack.terraform.outputs().get("functions") or {}).get("provision")
        if name:
            self.account.stop_function(name)

    def _remove_first(
        self, stack: Stack, variables: dict[str, Any], resources: Sequence[str]
    ) -> None:
        """Remove the relay, and then the resources that AWS services created in the network."""
        from botocore.exceptions import ClientError

        if any(name.startswith(_RELAY) for name in resources):
            stack.terraform.destroy(variables, self._say, only=[_RELAY])
        self._remove_guards()
        for group, maker in self.account.groups_of_services(self._spec.cluster_id).items():
            try:
                self.account.client("ec2").delete_security_group(GroupId=group)
            except ClientError as e:
                self._say(
                    f"warning: the security group {group} of {maker} could not be deleted yet: {e}"
                )

    def _remove_guards(self) -> None:
        """Remove the VPC endpoints of GuardDuty. GuardDuty recreates them while machines exist."""
        from botocore.exceptions import ClientError

        cluster_id, limit = self._spec.cluster_id, time.monotonic() + _UNGUARDED_S
        try:
            endpoints = self.account.guard_endpoints(cluster_id)
            if endpoints:
                self._say(f"Removing the GuardDuty endpoints {', '.join(endpoints)}")
                self.account.client("ec2").delete_vpc_endpoints(VpcEndpointIds=endpoints)
            while self.account.guard_endpoints(cluster_id) and time.monotonic() < limit:
                time.sleep(5)
        except ClientError as e:
            self._say(f"warning: the GuardDuty endpoints could not be removed yet: {e}")

    def _remove(self, stack: Stack, variables: dict[str, Any], keep_data: bool) -> None:
        try:
            super()._remove(stack, variables, keep_data)
        except CommandError as e:
            if "DependencyViolation" not in e.cause:
                raise
            groups = self.account.groups_of_services(self._spec.cluster_id)
            if not groups:
                raise
            makers = " and ".join(sorted(set(groups.values())))
            raise CommandError(
                f"the network cannot be deleted yet: {makers} still uses the security group {', '.join(groups)}",
                "run the same command again in a few minutes to remove the group and the network",
            ) from e

    def _remaining(self) -> list[str]:
        """Return the remaining machines, and warn about other resources with the cluster's tag.

        AWS lists deleted resources for a while, so other resources only cause a warning.
        """
        cluster_id, limit = self._spec.cluster_id, time.monotonic() + _LISTED_S
        while (tagged := self._tagged()) and time.monotonic() < limit:
            self._say(f"Waiting for {len(tagged)} resources that AWS still lists")
            time.sleep(10)
        if tagged:
            self._say(
                f"warning: AWS still lists {', '.join(tagged)}, which is normal for a while after deletion. Check with"
                f" `aws resourcegroupstaggingapi get-resources --tag-filters Key={TAG},Values={cluster_id}`"
            )
        return super()._remaining()

    def _tagged(self) -> list[str]:
        """Return the resources with the cluster's tag in all regions that the cluster used."""
        arns: list[str] = []
        regions = {self._spec.region, _GLOBAL, *(p.name for p in self._fleet.of_provider("aws"))}
        for region in sorted(regions):
            try:
                arns += self.account.at(region).tagged(self._spec.cluster_id)
            except CommandError as e:
                self._say(
                    f"warning: the tagged resources in {region} could not be listed: {e.cause}"
                )
        return arns

    def _logs_hint(self) -> str:
        return f"the log group /aws/lambda/det-{self._spec.cluster_id}-api shows the reason"


def _google_projects(config: dict[str, Any]) -> list[str]:
    """Return the Google Cloud projects in which pools rent machines."""
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
        with urllib.request.urlopen(url, timeout=20) as response:
            return bytes(response.read())
    except OSError as e:
        raise CommandError(
            f"{url} cannot be downloaded: {e}", "the functions need these RDS certificates"
        ) from e
