"""A cluster on Google Cloud: services of Cloud Run over Cloud SQL."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
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
    google_secrets,
    image,
    prices,
    task_images,
)
from det_cli.deployment.cluster import ClusterSpec, Deployment
from det_cli.deployment.google import Google
from det_cli.deployment.machine_images import GPU_IMAGE
from det_cli.deployment.prices import ControlPlaneCost, GcpStack
from det_cli.deployment.provider_lock import ProviderLock
from det_cli.deployment.stack import Stack
from det_cli.errors import CommandError, UsageError
from det_cli.render import Say

CLUSTER_ID = re.compile(r"[a-z]([-a-z0-9]{0,18}[a-z0-9])?")
_SERVICES = "module.controlplane.google_cloud_run_v2_service.this"
_DATABASE = "module.database"
_DATABASE_USER = "module.database.google_sql_user.this"
_RESTORED = "restored_backup"  # among the kept options
# What the image needs to be built: the registry, the builder's account, and the bucket that the sources go to.
_FOR_IMAGES = ("module.images", "module.storage")


@dataclass(frozen=True)
class ProjectAccess:
    """Hold the project of the cluster, and the credentials that the command uses there."""

    project: str
    keypath: str = ""
    state_bucket: str = ""

    def account(self, region: str, endpoint_url: str = "") -> Google:
        return Google(
            self.project, region, keypath=self.keypath, endpoint_url=endpoint_url,
            states=self.state_bucket,
        )  # fmt: skip


class GcpDeployment(Deployment):
    """A cluster of a project."""

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
        # From which the database is yet to begin.
        self._backup: google_backups.Backup | None = None
        self._before: dict[str, str] = {}  # what answered, by service
        self.account = access.account(spec.region, spec.endpoint_url)

    def check_name(self) -> None:
        cluster_id = self._spec.cluster_id
        if not CLUSTER_ID.fullmatch(cluster_id):
            raise UsageError(
                f"--cluster-id {cluster_id!r} must be a small letter, then at most 19 small letters, digits"
                " and hyphens, and no hyphen at the end"
            )

    def plan(self) -> None:
        config = self.config()
        missing = google_checks.disabled(self.account, self._spec.variables)
        if missing:
            page = f"https://console.cloud.google.com/apis/library/{missing[0]}.googleapis.com"
            raise CommandError(
                f"the project {self.account.project} has APIs disabled that a plan asks: {', '.join(missing)}",
                f"`det deploy gcp up` enables them itself; or enable each, as {missing[0]} at"
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
        given = self._spec.variables
        names = ("database_tier", "database_disk_gb", "database_highly_available")
        return GcpStack(**{name: given[name] for name in names if name in given})

    def environment(self) -> dict[str, str]:
        project = self.account.project
        # Calls by an operator's own credentials count against this project's quota, not gcloud's.
        found = {
            "GOOGLE_PROJECT": project,
            "GOOGLE_BILLING_PROJECT": project,
            "USER_PROJECT_OVERRIDE": "true",
        }
        if self._access.keypath:
            found["GOOGLE_APPLICATION_CREDENTIALS"] = str(Path(self._access.keypath).resolve())
        return found

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
            **self._key_of_secrets(),
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
        """Build the image in the project: no Docker is needed here, and no registry elsewhere."""
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
        return {"image": image.built(google, cluster_id, self._bucket(), self._say)}

    def _to_restore(self) -> google_backups.Backup | None:
        """Return the backup from which the database begins; None for one that has begun.

        Raises CommandError rather than let a backup take a database's place.
        """
        name, cluster_id = self._backup_name, self._spec.cluster_id
        kept = self.account.options(cluster_id)
        if not name:
            return None
        is_there = google_backups.has_database(self.account, self._database)
        # A removal that was cut off may have taken the database that had begun with it.
        if is_there and kept.get(_RESTORED) == name:
            return None
        is_begun = kept.get("db_backup") == name  # and nothing has used the database since
        if is_there and not is_begun:
            raise UsageError(
                f"the cluster {cluster_id} has a database, which no backup replaces",
                "`det deploy gcp down` removes it, and leaves a backup of its own; or give another --cluster-id",
            )
        return google_backups.fitting(self.account, name)

    def _databases(self) -> list[str]:
        return [*([self._backup.database] if self._backup else []), *super()._databases()]

    def _restore(
        self, stack: Stack, variables: dict[str, Any], backup: google_backups.Backup
    ) -> None:
        """Make the database, and put the backup into it before anything else is there to use it."""
        google, cluster_id = self.account, self._spec.cluster_id
        self._take_over_key(variables, backup.database)
        stack.terraform.apply(variables, self._say, only=[_DATABASE])
        self._say(f"The database begins from the backup {backup.id}: this takes some minutes")
        user = stack.terraform.attributes(_DATABASE_USER)
        instance, name = str(user["instance"]), str(user["name"])
        google_backups.restore(google, instance, backup, self._say)
        google_backups.set_password(google, instance, name, str(user["password"]), self._say)
        google.keep_options(
            cluster_id, {**google.options(cluster_id), _RESTORED: self._backup_name}
        )

    def way_back(self) -> str:
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

    def _settle(self, outputs: dict[str, Any]) -> None:
        """Do nothing: the API brings the database up to date before it listens."""

    def _roll_back(self, outputs: dict[str, Any]) -> bool:
        """Let requests reach the revisions before these, if there are any."""
        now = self.account.revisions(self._spec.cluster_id)
        newer = [name for name, revision in self._before.items() if now.get(name) != revision]
        for name in sorted(newer, reverse=True):  # the API, which starts the others, last
            self.account.switch(name, self._before[name])
        return bool(newer)

    def _drop_old_versions(self, outputs: dict[str, Any]) -> None:
        """Destroy old versions of secrets. The registry deletes old images, and Cloud Run deletes old revisions."""
        try:
            google_secrets.prune(self.account, self._spec.cluster_id)
        except CommandError as e:
            self._say(f"warning: old versions of secrets stay: {e.cause}")

    def _stop_renting(self, stack: Stack, variables: dict[str, Any]) -> None:
        """Remove the services first: nothing else rents machines."""
        if _SERVICES in stack.terraform.resources():
            stack.terraform.destroy(variables, self._say, only=[_SERVICES])

    def _before_the_rest(
        self, stack: Stack, variables: dict[str, Any], made: Sequence[str]
    ) -> None:
        """Remove the database, and what ties the network to Google's own."""
        stack.terraform.destroy(variables, self._say, only=[_DATABASE])
        self.account.remove_peering(f"det-{self._spec.cluster_id}")

    def _remove(self, stack: Stack, variables: dict[str, Any], keep_data: bool) -> None:
        try:
            super()._remove(stack, variables, keep_data)
        except CommandError as e:
            if "serverless-ipv4" not in e.cause:
                raise
            raise CommandError(
                "all that costs money is removed, but Cloud Run keeps addresses of the subnet for up to two hours",
                "run the same command again after that: it removes subnet and network",
            ) from e

    def _left(self) -> list[str]:
        cluster_id = self._spec.cluster_id
        return [
            *super()._left(),
            *self.account.labelled(cluster_id),
            *self.account.named(cluster_id),
        ]

    def _where_logs_are(self) -> str:
        place = f"{self._spec.region}/det-{self._spec.cluster_id}-api"
        page = f"https://console.cloud.google.com/run/detail/{place}/logs"
        return f"{page}?project={self.account.project} says why"
