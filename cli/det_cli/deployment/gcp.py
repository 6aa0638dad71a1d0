"""A cluster on Google Cloud: Cloud Run services and a Cloud SQL database."""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from det_cli.deployment import (
    fleet,
    google_backups,
    google_checks,
    google_machines,
    google_policies,
    image,
    prices,
    task_images,
)
from det_cli.deployment.cluster import ClusterSpec, Deployment
from det_cli.deployment.google import LABEL, Google
from det_cli.deployment.pool_checks import GPU_IMAGE
from det_cli.deployment.prices import ControlPlaneCost, GcpStack
from det_cli.deployment.stack import ProviderLock, Stack
from det_cli.errors import CommandError, UsageError
from det_cli.render import Say

CLUSTER_ID = re.compile(r"[a-z]([-a-z0-9]{0,18}[a-z0-9])?")
_SERVICES = "module.controlplane.google_cloud_run_v2_service.this"
_DATABASE = "module.database"
_DATABASE_USER = "module.database.google_sql_user.this"
_RESTORED = "restored_backup"  # key in the stored options
# Modules that the image build needs: the registry, the builder's account, and the bucket for the sources.
_FOR_IMAGES = ("module.images", "module.storage")


@dataclass(frozen=True)
class ProjectAccess:
    """The project of the cluster and the operator's credentials for it."""

    project: str
    keypath: str = ""
    state_bucket: str = ""

    def account(self, region: str, endpoint_url: str = "") -> Google:
        return Google(
            self.project, region, keypath=self.keypath, endpoint_url=endpoint_url,
            states=self.state_bucket,
        )  # fmt: skip


class GcpDeployment(Deployment):
    """A cluster in a Google Cloud project."""

    stack = "gcp"
    data = (
        "module.storage.google_storage_bucket.this",
        "module.database.google_sql_database_instance.this",
        "module.database.google_sql_database.this",
    )
    storage_type = "gcs"
    lasting = (_RESTORED,)
    account: Google

    def __init__(
        self,
        spec: ClusterSpec,
        access: ProjectAccess,
        say: Say,
        *,
        preflight: bool = True,
        backup: str = "",
    ) -> None:
        super().__init__(spec, say)
        self._access = access
        self._preflight = preflight
        self._backup_name = backup
        # The backup to restore into a new database.
        self._backup: google_backups.Backup | None = None
        self._before: dict[str, str] = {}  # the previous revision of each service
        self.account = access.account(spec.region, spec.endpoint_url)

    def check_name(self) -> None:
        cluster_id = self._spec.cluster_id
        if not CLUSTER_ID.fullmatch(cluster_id):
            raise UsageError(
                f"--cluster-id {cluster_id!r} must be a lowercase letter followed by at most 19 lowercase letters,"
                " digits and hyphens, and must not end with a hyphen"
            )

    def plan(self) -> None:
        config = self.config()
        missing = google_checks.disabled(self.account, self._spec.variables)
        if missing:
            page = f"https://console.cloud.google.com/apis/library/{missing[0]}.googleapis.com"
            raise CommandError(
                f"the project {self.account.project} has disabled APIs that a plan needs: {', '.join(missing)}",
                f"`det deploy gcp up` enables them; or enable each API, for example {missing[0]} at"
                f" {page}?project={self.account.project}",
            )
        self._check_project(config)
        self._backup = self._to_restore()
        super().plan()

    def prices(self) -> Iterator[str]:
        config = self.config()
        idle = prices.gcp_idle(self._priced_stack(), prices.always_rented(config))
        return prices.month(idle, config, prices.gcp_busy())

    def usd_hour(self) -> ControlPlaneCost:
        idle = prices.gcp_idle(self._priced_stack())
        return prices.control_plane(idle, prices.run_instance_usd_hour())

    def _priced_stack(self) -> GcpStack:
        variables = self._spec.variables
        names = ("database_tier", "database_disk_gb", "database_highly_available")
        return GcpStack(**{name: variables[name] for name in names if name in variables})

    def environment(self) -> dict[str, str]:
        project = self.account.project
        # Calls with user credentials count against the quota of this project instead of gcloud's project.
        variables = {
            "GOOGLE_PROJECT": project,
            "GOOGLE_BILLING_PROJECT": project,
            "USER_PROJECT_OVERRIDE": "true",
        }
        if self._access.keypath:
            variables["GOOGLE_APPLICATION_CREDENTIALS"] = str(Path(self._access.keypath).resolve())
        return variables

    def _open(self, *, keep_state: bool = True) -> Stack:
        stack = super()._open(keep_state=keep_state)
        if keep_state:
            stack.lock = ProviderLock(self.account, self._spec.cluster_id)
        return stack

    def _check(self) -> None:
        config = self.config()
        missing = google_checks.disabled(self.account, self._spec.variables)
        if missing:
            google_checks.enable(self.account, missing, self._say)
        self._check_project(config)
        self._backup = self._to_restore()

    def _check_project(self, config: dict[str, Any]) -> None:
        if self._preflight:
            google_checks.check_permissions(self.account)
            google_checks.check_budget(self.account, self._spec.variables)
            external_ip = self._spec.variables.get("machine_external_ip") is not False
            machines = google_machines.machines_of(config, external_ip=external_ip)
            google_checks.check_machines(self.account, machines, self._say)
            google_policies.check(self.account, machines, self._spec.variables, self._say)
            task_images.check(config, self._say)

    def _variables(self, folder: Path, *, build: bool = True) -> dict[str, Any]:
        disk = {"database_disk_gb": max(10, self._backup.disk_gb)} if self._backup else {}
        return {
            **disk,
            **self._secrets_keys(),
            "cluster_id": self._spec.cluster_id,
            "project": self.account.project,
            "region": self._spec.region,
            "image": "not-built-yet",
            "cluster_config": yaml.safe_dump(self.config(), sort_keys=False) if build else "",
            **self._spec.variables,
        }

    def _provider_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        return {
            "gcp": {
                "project": self.account.project,
                "region": self._spec.region,
                "boot_disk_source_image": GPU_IMAGE,
            }
        }

    def _own_location(self) -> fleet.Location:
        return fleet.Location("gcp", self.account.project)

    def _bucket(self) -> str:
        name = f"det-{self._spec.cluster_id}-{self.account.project}"
        return str(self._spec.variables.get("bucket") or name)

    def _prepare(self, stack: Stack, variables: dict[str, Any]) -> dict[str, Any]:
        """Build the image with Cloud Build, without a local Docker or an external registry."""
        self._before = self.account.revisions(self._spec.cluster_id)
        more = self._image(stack, variables)
        if self._backup:
            self._restore(stack, {**variables, **more}, self._backup)
        return more

    def _image(self, stack: Stack, variables: dict[str, Any]) -> dict[str, Any]:
        if "image" in self._spec.variables:
            return {}
        stack.terraform.apply(variables, self._say, only=_FOR_IMAGES)
        google, cluster_id = self.account, self._spec.cluster_id
        return {"image": image.ensure(google, cluster_id, self._bucket(), self._say)}

    def _to_restore(self) -> google_backups.Backup | None:
        """Return the backup to restore, or None if the database was already restored.

        Raises UsageError if a backup would replace an existing database.
        """
        name, cluster_id = self._backup_name, self._spec.cluster_id
        stored = self.account.options(cluster_id)
        if not name:
            return None
        is_there = google_backups.has_database(self.account, self._database)
        # The database must exist, because an interrupted removal may have deleted the restored database.
        if is_there and stored.get(_RESTORED) == name:
            return None
        was_started = (
            stored.get("db_backup") == name
        )  # an interrupted restore; the database is unused
        if is_there and not was_started:
            raise UsageError(
                f"the cluster {cluster_id} already has a database, and a backup cannot replace it",
                "`det deploy gcp down` removes it and keeps a final backup; or give another --cluster-id",
            )
        return google_backups.find(self.account, name)

    def _databases(self) -> list[str]:
        return [*([self._backup.database] if self._backup else []), *super()._databases()]

    def _restore(
        self, stack: Stack, variables: dict[str, Any], backup: google_backups.Backup
    ) -> None:
        """Create the database and restore the backup before any service uses the database."""
        google, cluster_id = self.account, self._spec.cluster_id
        self._reuse_key(variables, backup.database)
        stack.terraform.apply(variables, self._say, only=[_DATABASE])
        self._say(f"Restoring the database from the backup {backup.id}, which takes some minutes")
        user = stack.terraform.attributes(_DATABASE_USER)
        instance, name = str(user["instance"]), str(user["name"])
        google_backups.restore(google, instance, backup, self._say)
        google_backups.set_password(google, instance, name, str(user["password"]), self._say)
        google.keep_options(
            cluster_id, {**google.options(cluster_id), _RESTORED: self._backup_name}
        )

    def restore_command(self) -> str:
        try:
            last = google_backups.last_of(self.account, self._database)
        except CommandError:
            last = None
        if not last:
            return ""
        options = {
            "--cluster-id": self._spec.cluster_id, "--project-id": self.account.project,
            "--region": self._spec.region, "--keypath": self._access.keypath,
            "--tf-state-gcs-bucket-name": self._access.state_bucket, "--db-backup": last.id,
        }  # fmt: skip
        words = [word for name, value in options.items() if value for word in (name, value)]
        bucket = self._spec.variables.get("bucket")
        own_bucket = ["--var", f"bucket={bucket}"] if bucket else []
        return shlex.join(["det", "deploy", "gcp", "up", *words, *own_bucket])

    def _finish(self, outputs: dict[str, Any]) -> None:
        """Do nothing, because the API migrates the database when it starts."""

    def _roll_back(self, outputs: dict[str, Any]) -> bool:
        """Switch requests back to the previous revisions. Return False without any."""
        now = self.account.revisions(self._spec.cluster_id)
        newer = [name for name, revision in self._before.items() if now.get(name) != revision]
        for name in sorted(
            newer, reverse=True
        ):  # the API last, because it calls the other services
            self.account.switch(name, self._before[name])
        return bool(newer)

    def _drop_old_versions(self, outputs: dict[str, Any]) -> None:
        """Destroy old versions of secrets. The registry and Cloud Run delete old images and revisions themselves."""
        try:
            prune_secrets(self.account, self._spec.cluster_id)
        except CommandError as e:
            self._say(f"warning: old versions of secrets could not be destroyed: {e.cause}")

    def _stop_renting(self, stack: Stack, variables: dict[str, Any]) -> None:
        """Remove the services, because only they rent machines."""
        if _SERVICES in stack.terraform.resources():
            stack.terraform.destroy(variables, self._say, only=[_SERVICES])

    def _remove_first(
        self, stack: Stack, variables: dict[str, Any], resources: Sequence[str]
    ) -> None:
        """Remove the database and the network peering with Google's services."""
        stack.terraform.destroy(variables, self._say, only=[_DATABASE])
        self.account.remove_peering(f"det-{self._spec.cluster_id}")

    def _remove(self, stack: Stack, variables: dict[str, Any], keep_data: bool) -> None:
        try:
            super()._remove(stack, variables, keep_data)
        except CommandError as e:
            if "serverless-ipv4" not in e.cause:
                raise
            raise CommandError(
                "every billed resource is removed, but Cloud Run reserves addresses in the subnet for up to two hours",
                "run the same command again after that time to remove the subnet and the network",
            ) from e

    def _remaining(self) -> list[str]:
        cluster_id = self._spec.cluster_id
        return [
            *super()._remaining(),
            *self.account.labelled(cluster_id),
            *self.account.named(cluster_id),
        ]

    def _logs_hint(self) -> str:
        place = f"{self._spec.region}/det-{self._spec.cluster_id}-api"
        page = f"https://console.cloud.google.com/run/detail/{place}/logs"
        return f"{page}?project={self.account.project} shows the reason"


def prune_secrets(google: Google, cluster_id: str) -> None:
    """Destroy unused versions of secrets, except the newest unused version. Raises CommandError.

    The previous revision reads that version after a rollback.
    """
    used = _versions_read_by(google.services(cluster_id).values())
    path = f"/v1/projects/{google.project}/secrets"
    label_filter = f"labels.{LABEL}={cluster_id}"
    for secret in google.pages("secretmanager", path, "secrets", filter=label_filter):
        name = _last_part(secret["name"])
        if used[name]:
            _destroy_older(google, f"{path}/{name}/versions", min(used[name]))


def _destroy_older(google: Google, path: str, oldest_used: int) -> None:
    versions = google.pages("secretmanager", path, "versions")
    existing = [int(_last_part(v["name"])) for v in versions if v["state"] != "DESTROYED"]
    older = sorted(number for number in existing if number < oldest_used)
    for number in older[:-1]:
        google.call("POST", "secretmanager", f"{path}/{number}:destroy", {})


def _versions_read_by(services: Iterable[Mapping[str, Any]]) -> dict[str, set[int]]:
    """Return the versions that the newest revisions of the services read, by secret."""
    versions: defaultdict[str, set[int]] = defaultdict(set)
    for service in services:
        for secret, version in _references(service.get("template", {})):
            if version.isdigit():
                versions[_last_part(secret)].add(int(version))
    return versions


def _references(template: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for container in template.get("containers", ()):
        for variable in container.get("env", ()):
            reference = variable.get("valueSource", {}).get("secretKeyRef")
            if reference:
                yield reference["secret"], str(reference.get("version", ""))
    for volume in template.get("volumes", ()):
        for item in volume.get("secret", {}).get("items", ()):
            yield volume["secret"]["secret"], str(item.get("version", ""))


def _last_part(name: str) -> str:
    return name.rpartition("/")[2]
