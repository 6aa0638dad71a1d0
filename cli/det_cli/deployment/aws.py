"""A cluster on AWS: functions of Lambda over a database of RDS."""

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
    aws_account_plan,
    aws_endpoints,
    aws_function_url,
    aws_keys,
    aws_migration,
    aws_preflight,
    aws_relay,
    aws_service_roles,
    aws_snapshots,
    extras,
    prices,
    task_images,
)
from det_cli.deployment.aws_account import TAG, Aws
from det_cli.deployment.cluster import ClusterSpec, Deployment
from det_cli.deployment.fleet import Location, MachineAccount
from det_cli.deployment.machine_images import GPU_IMAGE
from det_cli.deployment.prices import AwsStack, ControlPlaneCost
from det_cli.deployment.stack import Stack
from det_cli.errors import CommandError, UsageError
from det_cli.render import Say

CLUSTER_ID = re.compile(r"(?=.{1,31}$)[a-zA-Z](-?[a-zA-Z0-9])*")
RDS_CERTIFICATES = "https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem"
GOOGLE_FILE = "gcp-credentials.json"
_RELAY = "module.relay"
_LIVE = "live"  # the alias of what requests and schedules reach
_GLOBAL = "us-east-1"  # lists what has no region, such as a distribution of CloudFront
_LISTED_S = 60.0
_UNGUARDED_S = 300.0  # in which the network interfaces of an endpoint go


class AwsDeployment(Deployment):
    """A cluster of an AWS account."""

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
            None  # from which the database is yet to begin
        )
        self.account = Aws(spec.region, spec.endpoint_url, spec.profile)
        self._before: dict[str, str] = {}

    def check_name(self) -> None:
        cluster_id = self._spec.cluster_id
        if not CLUSTER_ID.fullmatch(cluster_id):
            raise UsageError(
                f"--cluster-id {cluster_id!r} must be a letter, then at most 30 letters, digits and hyphens, of"
                " which none is the last and no two stand together"
            )

    def _check(self) -> None:
        self._google_credentials()
        config = self.config()
        aws_preflight.check_budget(self._spec.variables)
        aws_preflight.check_python(self._runtime())
        if self._has_url():
            aws_function_url.check_sdk(self.account)
        self._snapshot = self._to_restore()
        if not self._preflight:
            return
        if self._has_relay():
            aws_relay.check_region(self._spec.region)
        if self._keypair:
            aws_preflight.check_keypair(self.account, self._keypair)
        has_limits = not self._spec.endpoint_url  # an AWS that is not Amazon's has none to tell
        cluster_id, zones = self._spec.cluster_id, self._spec.variables.get("zones") or ()
        rentals = aws_preflight.rentals_of(config, self._spec.region, zones)
        aws_preflight.check_place(self.account, rentals, self._say)
        aws_preflight.check_subnets(self.account, config)
        if cluster_id not in self.account.clusters():
            aws_preflight.check_name(self.account, cluster_id)
        if has_limits:
            aws_account_plan.check(self.account, self._say)
            given = {**self._spec.variables, **self._restored()}
            aws_endpoints.check(self._spec.region, [r.region for r in rentals], given)
            aws_preflight.check_limits(self.account, cluster_id, rentals, given, self._say)
            for warning in aws_keys.warnings(self.account, config, given.get("kms_key_arns") or ()):
                self._say(f"warning: {warning}")
        task_images.check(config, self._say)

    def _to_restore(self) -> aws_snapshots.Snapshot | None:
        """Return the snapshot from which the database begins; None for one that is there already.

        Raises CommandError rather than let a snapshot take a database's place.
        """
        name = self._snapshot_name
        if not name:
            return None
        if aws_snapshots.has_database(self.account, self._database):
            if self.account.options(self._spec.cluster_id).get("db_snapshot") == name:
                return None  # it began from it, the last time
            raise UsageError(
                f"the cluster has a database, {self._database}, which no snapshot replaces",
                "`det deploy aws down` removes it, and leaves a snapshot of its own; or give another --cluster-id",
            )
        kind = str(self._spec.variables.get("database", "aurora"))
        return aws_snapshots.fitting(self.account, name, kind)

    def _restored(self) -> dict[str, Any]:
        return {"database_snapshot": self._snapshot.variable()} if self._snapshot else {}

    def _databases(self) -> list[str]:
        return [*([self._snapshot.database] if self._snapshot else []), *super()._databases()]

    def _prepare(self, stack: Stack, variables: dict[str, Any]) -> dict[str, Any]:
        rentals = aws_preflight.rentals_of(self.config())
        roles = aws_preflight.roles_of(rentals, self._spec.variables)
        aws_service_roles.create(self.account, roles, self._say)
        if self._has_url():  # before Terraform removes the right that earlier versions gave
            aws_function_url.allow(self.account, f"det-{self._spec.cluster_id}-api", _LIVE)
        if self._snapshot:
            self._say(f"The database begins from the snapshot {self._snapshot.name}")
            self._take_over_key(variables, self._snapshot.database)
        return {}

    def _apply(self, stack: Stack, variables: dict[str, Any]) -> None:
        """Apply the stack; retry while AWS's services report that a new service-linked role does not work yet."""
        patience = aws_service_roles.Patience()
        while True:
            try:
                return super()._apply(stack, variables)
            except CommandError as e:
                if not patience.excuses(e):
                    raise
                self._say("Waiting until AWS's services accept the new roles")

    def way_back(self) -> str:
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
        given = [*(["--profile", spec.profile] if spec.profile else [])]
        given += ["--db-snapshot", last.name]
        named = {
            "database": last.kind if last.kind != "aurora" else "",
            "bucket": spec.variables.get("bucket"),
        }
        given += [
            word for name, value in named.items() if value for word in ("--var", f"{name}={value}")
        ]
        return shlex.join([*words, *given])

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
        given = self._spec.variables
        names = (
            "database",
            "database_instance_class",
            "log_retention_days",
            "relay",
            "machine_external_ip",
            "alarm_topic_arn",
        )
        return AwsStack(**{name: given[name] for name in names if name in given})

    def _variables(self, folder: Path, *, build: bool = True) -> dict[str, Any]:
        made = self._zip(folder) if build else _empty_zip(folder)

        def zip_named(name: str) -> str:
            """Return a path for Terraform, the same each time: functions would be new versions by it alone."""
            return os.path.relpath(made.with_name(name) if build else made, working_folder)

        working_folder = folder / "stacks" / self.stack
        variables = {
            "cluster_id": self._spec.cluster_id, "region": self._spec.region, "zip": zip_named(made.name),
            "keys_zip": zip_named("keys.zip"), "runtime": self._runtime(), **self._restored(), **self._spec.variables,
        }  # fmt: skip
        variables = {**self._key_of_secrets(), **variables}
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
            more |= {name: self._spec.variables.get(name) for name in ("architecture", "runtime")}
            return packaging.build(
                folder, files, **{name: value for name, value in more.items() if value}
            )
        except packaging.PackagingFailed as e:
            raise CommandError(str(e)) from e

    def _has_relay(self) -> bool:
        return bool(self._spec.variables.get("relay", False))

    def _runtime(self) -> str:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return str(self._spec.variables.get("runtime") or version)

    def _google_credentials(self) -> bytes | None:
        """Return how functions sign in to Google Cloud, if a pool rents there. Raises UsageError."""
        if not _google_projects(self.config()):
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
        """Return the cluster's status, and whether the relay's machine runs."""
        found = super().status()
        if found.get("relay"):
            found["relay"] = f"{found['relay']}: {self.account.state_of(found['relay'])}"
        return found

    def _settle(self, outputs: dict[str, Any]) -> None:
        self._open_url(outputs["functions"])
        self._say("Migrating the database")
        aws_migration.migrate(self.account, outputs["functions"]["migrate"])
        self._before = self._switch(outputs["functions"], outputs.get("versions") or {})

    def _has_url(self) -> bool:
        return aws_function_url.is_wanted(self._spec.variables.get("endpoint"))

    def _open_url(self, functions: Mapping[str, str]) -> None:
        """Let requests reach the function by its URL, or by API Gateway alone."""
        name = functions.get("api", f"det-{self._spec.cluster_id}-api")
        if not self._has_url():
            aws_function_url.forbid(self.account, name, _LIVE)
        elif not aws_function_url.allow(self.account, name, _LIVE):
            raise CommandError(
                f"there is no function {name} with the alias {_LIVE}",
                "run the same command again: Terraform makes it",
            )

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
        """Delete the functions' earlier versions: AWS keeps every one, and limits their total size."""
        from botocore.exceptions import BotoCoreError, ClientError

        for name in ("migrate", *outputs.get("versions", ())):
            function = outputs["functions"][name]
            try:
                self.account.drop_versions(function, kept={self._before.get(name, "")})
            except (BotoCoreError, ClientError) as e:
                self._say(f"warning: old versions of {function} stay: {e}")

    def _stop_renting(self, stack: Stack, variables: dict[str, Any]) -> None:
        """Let no function rent another machine."""
        name = (stack.terraform.outputs().get("functions") or {}).get("provision")
        if name:
            self.account.stop_function(name)

    def _before_the_rest(
        self, stack: Stack, variables: dict[str, Any], made: Sequence[str]
    ) -> None:
        """Remove the relay, and then what services of AWS made in the network for it and for machines."""
        from botocore.exceptions import ClientError

        if any(name.startswith(_RELAY) for name in made):
            stack.terraform.destroy(variables, self._say, only=[_RELAY])
        self._remove_guards()
        for group, maker in self.account.groups_of_services(self._spec.cluster_id).items():
            try:
                self.account.client("ec2").delete_security_group(GroupId=group)
            except ClientError as e:
                self._say(f"warning: {group}, which {maker} made, stays for now: {e}")

    def _remove_guards(self) -> None:
        """Remove the endpoints by which GuardDuty watches machines: it makes them anew where there are machines."""
        from botocore.exceptions import ClientError

        cluster_id, limit = self._spec.cluster_id, time.monotonic() + _UNGUARDED_S
        try:
            endpoints = self.account.guard_endpoints(cluster_id)
            if endpoints:
                self._say(f"Removing {', '.join(endpoints)}, which GuardDuty made in the network")
                self.account.client("ec2").delete_vpc_endpoints(VpcEndpointIds=endpoints)
            while self.account.guard_endpoints(cluster_id) and time.monotonic() < limit:
                time.sleep(5)
        except ClientError as e:
            self._say(f"warning: what GuardDuty made in the network stays for now: {e}")

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
                f"the network stays, as {makers} has not let go of its security group {', '.join(groups)}",
                "run the same command again in some minutes: it removes the group and the network",
            ) from e

    def _left(self) -> list[str]:
        """Return machines; say what is listed with the cluster's tag, as AWS lists also what is gone for a while."""
        cluster_id, limit = self._spec.cluster_id, time.monotonic() + _LISTED_S
        while (tagged := self._tagged()) and time.monotonic() < limit:
            self._say(f"Waiting for {len(tagged)} resources that AWS still lists")
            time.sleep(10)
        if tagged:
            self._say(
                f"warning: AWS still lists {', '.join(tagged)}: it does so for a while after their end. Look again by"
                f" `aws resourcegroupstaggingapi get-resources --tag-filters Key={TAG},Values={cluster_id}`"
            )
        return super()._left()

    def _tagged(self) -> list[str]:
        """Return the resources with the cluster's tag, in all regions where the cluster was."""
        found: list[str] = []
        regions = {self._spec.region, _GLOBAL, *(p.name for p in self._fleet.of_provider("aws"))}
        for region in sorted(regions):
            try:
                found += self.account.at(region).tagged(self._spec.cluster_id)
            except CommandError as e:
                self._say(f"warning: {region} does not tell what has the cluster's tag: {e.cause}")
        return found

    def _where_logs_are(self) -> str:
        return f"the log group /aws/lambda/det-{self._spec.cluster_id}-api says why"


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
