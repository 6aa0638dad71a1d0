"""Cloud SQL backups, from which a removed cluster can be restored."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from det_cli.deployment.google import Google
from det_cli.errors import CommandError, MissingError, UsageError
from det_cli.render import Say

_VERSION = "POSTGRES_16"  # the database version of the stack
_OURS = "det-"
_RESTORED_S = 3600.0
_LOOK_S = 5.0
_AGAIN = "run the same command again to continue"


@dataclass(frozen=True, slots=True)
class Backup:
    """A Cloud SQL backup. The final backup of an instance is kept after the deletion of the instance."""

    name: str  # projects/PROJECT/backups/ID
    instance: str
    version: str
    state: str
    is_final: bool
    disk_gb: int
    made_at: str

    @property
    def id(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def database(self) -> str:
        """Return the name of the instance without its suffix, which differs for each created cluster."""
        return _without_suffix(self.instance)


def backups(google: Google) -> Iterator[Backup]:
    """Return all backups of the project, including backups of deleted instances."""
    path = f"/v1/projects/{google.project}/backups"
    for item in google.pages("sqladmin", path, "backups"):
        settings = (item.get("instanceSettings") or {}).get("settings") or {}
        yield Backup(
            name=str(item["name"]),
            instance=str(item.get("instance") or ""),
            version=str(item.get("databaseVersion") or ""),
            state=str(item.get("state") or ""),
            is_final=item.get("type") == "FINAL",
            disk_gb=int(settings.get("dataDiskSizeGb") or 0),
            made_at=str((item.get("backupInterval") or {}).get("startTime") or ""),
        )


def _without_suffix(instance: str) -> str:
    return instance.rpartition("-")[0]


def last_of(google: Google, database: str) -> Backup | None:
    """Return the newest final backup of a removed database, or None."""
    finals = [b for b in backups(google) if b.is_final and b.database == database]
    return max(finals, key=lambda b: b.made_at, default=None)


def has_database(google: Google, database: str) -> bool:
    """Return True if an instance has this name before its suffix."""
    instances = google.pages("sqladmin", f"/v1/projects/{google.project}/instances", "items")
    return any(_without_suffix(str(instance["name"])) == database for instance in instances)


def find(google: Google, name: str) -> Backup:
    """Return the backup with this id or name, if it can be restored into a cluster's database.

    Raises MissingError or UsageError if there is none, and CommandError if it is not complete.
    """
    existing = list(backups(google))
    backup = next((b for b in existing if name in (b.name, b.id)), None)
    if backup is None:
        ours = sorted(f"{b.id} ({b.instance})" for b in existing if b.instance.startswith(_OURS))
        raise MissingError(
            f"there is no backup {name} in project {google.project}; backups of clusters: {', '.join(ours) or 'none'}",
            "give another --db-backup, or another --project-id",
        )
    if backup.version != _VERSION or not backup.instance.startswith(_OURS):
        raise UsageError(
            f"the backup {name} is from {backup.instance} with {backup.version}, but a cluster's database is"
            f" {_OURS}CLUSTER with {_VERSION}",
            "give a backup that `det deploy gcp down` created, or a backup of a cluster's database",
        )
    if backup.state != "SUCCESSFUL":
        raise CommandError(
            f"the backup {name} is not complete: it is {backup.state}",
            "run the same command again in some minutes, or give another --db-backup",
        )
    return backup


def restore(google: Google, instance: str, backup: Backup, say: Say) -> None:
    """Replace the contents of a database with a backup. A repeated call waits for a restore that already runs."""
    path = f"/v1/projects/{google.project}/operations"
    operations = google.pages("sqladmin", path, "items", instance=instance)
    running = [operation for operation in operations if operation["status"] != "DONE"]
    if not any(operation["operationType"] == "RESTORE_VOLUME" for operation in running):
        for operation in running:
            _wait(google, operation, say)
        restore_path = f"/v1/projects/{google.project}/instances/{instance}/restoreBackup"
        running = [
            _operation(
                google.call("POST", "sqladmin", restore_path, {"backup": backup.name}), instance
            )
        ]
    for operation in running:
        _wait(google, operation, say)


def set_password(google: Google, instance: str, user: str, password: str, say: Say) -> None:
    """Set the password of a database user, because a restored backup contains another password."""
    path = f"/v1/projects/{google.project}/instances/{instance}/users"
    operation = google.call(
        "PUT", "sqladmin", path, {"name": user, "password": password}, name=user
    )
    _wait(google, _operation(operation, instance), say)


def _operation(operation: Any, instance: str) -> Mapping[str, Any]:
    if operation is None:
        raise CommandError(f"the database {instance} is gone", _AGAIN)
    return dict(operation)


def _wait(google: Google, operation: Mapping[str, Any], say: Say) -> None:
    """Wait until a Cloud SQL operation is done. Raises CommandError with its error."""
    started_at, minutes = time.monotonic(), 0
    while operation["status"] != "DONE":
        waited_s = time.monotonic() - started_at
        if waited_s > _RESTORED_S:
            raise CommandError(f"Cloud SQL does not finish {operation['name']}", _AGAIN)
        if waited_s >= 60 * (minutes + 1):
            minutes += 1
            say(f"Cloud SQL is still working [{minutes}m elapsed]")
        time.sleep(_LOOK_S)
        path = f"/v1/projects/{google.project}/operations/{operation['name']}"
        operation = google.call("GET", "sqladmin", path) or operation
    errors = (operation.get("error") or {}).get("errors", ())
    if errors:
        message = "; ".join(str(e.get("message") or e.get("code")) for e in errors)
        raise CommandError(f"Cloud SQL: {message}", _AGAIN)
