"""Backups of databases of Cloud SQL: what a cluster that was removed comes back from."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from det_cli.deployment.google import Google
from det_cli.errors import CommandError, MissingError, UsageError
from det_cli.render import Say

_VERSION = "POSTGRES_16"  # that the stack makes
_OURS = "det-"
_RESTORED_S = 3600.0
_LOOK_S = 5.0
_AGAIN = "run the same command again: it goes on"


@dataclass(frozen=True, slots=True)
class Backup:
    """Hold what Cloud SQL tells of a backup; it outlives its instance if it was the last one."""

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
        """Return the instance's name without its last part, which each cluster that is made has anew."""
        return _without_suffix(self.instance)


def backups(google: Google) -> Iterator[Backup]:
    """Return all backups of the project, also of instances that are gone."""
    path = f"/v1/projects/{google.project}/backups"
    for told in google.pages("sqladmin", path, "backups"):
        settings = (told.get("instanceSettings") or {}).get("settings") or {}
        yield Backup(
            name=str(told["name"]),
            instance=str(told.get("instance") or ""),
            version=str(told.get("databaseVersion") or ""),
            state=str(told.get("state") or ""),
            is_final=told.get("type") == "FINAL",
            disk_gb=int(settings.get("dataDiskSizeGb") or 0),
            made_at=str((told.get("backupInterval") or {}).get("startTime") or ""),
        )


def _without_suffix(instance: str) -> str:
    return instance.rpartition("-")[0]


def last_of(google: Google, database: str) -> Backup | None:
    """Return the newest backup that removals of a database left; None without any."""
    left = [b for b in backups(google) if b.is_final and b.database == database]
    return max(left, key=lambda b: b.made_at, default=None)


def has_database(google: Google, database: str) -> bool:
    """Tell whether there is an instance of that name, apart from its last part."""
    found = google.pages("sqladmin", f"/v1/projects/{google.project}/instances", "items")
    return any(_without_suffix(str(instance["name"])) == database for instance in found)


def fitting(google: Google, name: str) -> Backup:
    """Return the backup of an id or name, from which a cluster's database can begin.

    Raises MissingError and UsageError where there is none, and CommandError where it is not complete.
    """
    known = list(backups(google))
    found = next((b for b in known if name in (b.name, b.id)), None)
    if found is None:
        ours = sorted(f"{b.id} ({b.instance})" for b in known if b.instance.startswith(_OURS))
        raise MissingError(
            f"there is no backup {name} in project {google.project}; backups of clusters: {', '.join(ours) or 'none'}",
            "give another --db-backup, or another --project-id",
        )
    if found.version != _VERSION or not found.instance.startswith(_OURS):
        raise UsageError(
            f"the backup {name} is of {found.instance} with {found.version}, and a cluster's database is"
            f" {_OURS}CLUSTER with {_VERSION}",
            "give a backup that `det deploy gcp down` left, or one of a cluster's database",
        )
    if found.state != "SUCCESSFUL":
        raise CommandError(
            f"the backup {name} is not complete: it is {found.state}",
            "run the same command again in some minutes, or give another --db-backup",
        )
    return found


def restore(google: Google, instance: str, backup: Backup, say: Say) -> None:
    """Replace all that a database holds by a backup. Interrupted, it waits for what was begun."""
    path = f"/v1/projects/{google.project}/operations"
    listed = google.pages("sqladmin", path, "items", instance=instance)
    running = [found for found in listed if found["status"] != "DONE"]
    if not any(found["operationType"] == "RESTORE_VOLUME" for found in running):
        for operation in running:
            _wait(google, operation, say)
        asked = f"/v1/projects/{google.project}/instances/{instance}/restoreBackup"
        running = [
            _begun(google.call("POST", "sqladmin", asked, {"backup": backup.name}), instance)
        ]
    for operation in running:
        _wait(google, operation, say)


def set_password(google: Google, instance: str, user: str, password: str, say: Say) -> None:
    """Let a user of a database sign in by a password: the one that a backup brought is another."""
    path = f"/v1/projects/{google.project}/instances/{instance}/users"
    begun = google.call("PUT", "sqladmin", path, {"name": user, "password": password}, name=user)
    _wait(google, _begun(begun, instance), say)


def _begun(operation: Any, instance: str) -> Mapping[str, Any]:
    if operation is None:
        raise CommandError(f"the database {instance} is gone", _AGAIN)
    return dict(operation)


def _wait(google: Google, operation: Mapping[str, Any], say: Say) -> None:
    """Wait for the end of an operation of Cloud SQL. Raises CommandError with its error."""
    begun, told = time.monotonic(), 0
    while operation["status"] != "DONE":
        waited_s = time.monotonic() - begun
        if waited_s > _RESTORED_S:
            raise CommandError(f"Cloud SQL does not finish {operation['name']}", _AGAIN)
        if waited_s >= 60 * (told + 1):
            told += 1
            say(f"Cloud SQL is still at work [{told}m elapsed]")
        time.sleep(_LOOK_S)
        path = f"/v1/projects/{google.project}/operations/{operation['name']}"
        operation = google.call("GET", "sqladmin", path) or operation
    errors = (operation.get("error") or {}).get("errors", ())
    if errors:
        message = "; ".join(str(e.get("message") or e.get("code")) for e in errors)
        raise CommandError(f"Cloud SQL: {message}", _AGAIN)
