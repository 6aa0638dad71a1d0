"""Snapshots of databases of RDS: what a cluster that was removed comes back from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from det_cli.deployment.aws_preflight import AccountQueries
from det_cli.errors import CommandError, MissingError, UsageError

_ENGINES = {"aurora-postgresql": "aurora", "postgres": "rds"}
_OTHER_KIND = {
    "aurora": "leave --db-instance-type, --deployment-type and --var database=rds out (--forget-options, if they are"
    " those of the last time)",
    "rds": "give --var database=rds",
}
_MAJOR = "16"  # that the stack makes
_USER = "determined"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Hold what RDS tells of a snapshot, of a cluster of Aurora or of an instance."""

    name: str
    arn: str
    database: str  # of which it is
    engine: str
    version: str
    status: str
    user: str
    is_encrypted: bool
    disk_gb: int
    made_at: str

    @property
    def kind(self) -> str:
        """Return the kind of database, as the stack calls it; the engine for one that it does not make."""
        return _ENGINES.get(self.engine, self.engine)

    def variable(self) -> dict[str, Any]:
        """Return what the stack is told."""
        return {"name": self.arn, "version": self.version, "disk_gb": self.disk_gb}


def snapshots(aws: AccountQueries) -> Iterator[Snapshot]:
    """Return all snapshots that the account may restore in the region."""
    rds = aws.client("rds")
    for page in rds.get_paginator("describe_db_cluster_snapshots").paginate(IncludeShared=True):
        yield from (_read(s, "DBCluster") for s in page["DBClusterSnapshots"])
    for page in rds.get_paginator("describe_db_snapshots").paginate(IncludeShared=True):
        yield from (_read(s, "DB") for s in page["DBSnapshots"])


def _read(told: Mapping[str, Any], prefix: str) -> Snapshot:
    of = "DBClusterIdentifier" if prefix == "DBCluster" else "DBInstanceIdentifier"
    return Snapshot(
        name=str(told[f"{prefix}SnapshotIdentifier"]),
        arn=str(told[f"{prefix}SnapshotArn"]),
        database=str(told[of]),
        engine=str(told["Engine"]),
        version=str(told.get("EngineVersion") or ""),
        status=str(told["Status"]),
        user=str(told.get("MasterUsername") or ""),
        is_encrypted=bool(told.get("StorageEncrypted", told.get("Encrypted", False))),
        disk_gb=int(told.get("AllocatedStorage") or 0),
        made_at=str(told.get("SnapshotCreateTime") or ""),
    )


def last_of(aws: AccountQueries, database: str) -> Snapshot | None:
    """Return the newest snapshot that removals of a database left; None without any."""
    final = f"{database}-final"
    left = [s for s in snapshots(aws) if s.database == database and s.name.startswith(final)]
    return max(left, key=lambda s: s.made_at, default=None)


def has_database(aws: AccountQueries, database: str) -> bool:
    """Tell whether there is a database of that name, of either kind."""
    from botocore.exceptions import ClientError

    rds = aws.client("rds")
    asked = (
        (rds.describe_db_clusters, "DBClusterIdentifier"),
        (rds.describe_db_instances, "DBInstanceIdentifier"),
    )
    for describe, name in asked:
        try:
            describe(**{name: database})
        except ClientError as e:
            if "NotFound" not in e.response["Error"]["Code"]:
                raise
        else:
            return True
    return False


def fitting(aws: AccountQueries, name: str, kind: str) -> Snapshot:
    """Return the snapshot of a name or ARN, from which a database of that kind can begin.

    Raises MissingError and UsageError where there is none, and CommandError where it is not complete.
    """
    known = list(snapshots(aws))
    found = next((s for s in known if name in (s.name, s.arn)), None)
    if found is None:
        ours = sorted(s.name for s in known if s.kind in _OTHER_KIND and s.user == _USER)
        raise MissingError(
            f"there is no snapshot {name} in {aws.region}; snapshots here: {', '.join(ours) or 'none'}",
            "give another --db-snapshot, or another --region",
        )
    if found.kind != kind and found.kind in _OTHER_KIND:
        told = {"aurora": "Aurora", "rds": "an instance of RDS"}
        raise UsageError(
            f"the snapshot {name} is of {told[found.kind]}, and this database would be {told[kind]}",
            _OTHER_KIND[found.kind],
        )
    _must_be_of_a_cluster(found)
    if found.status != "available":
        raise CommandError(
            f"the snapshot {name} is not complete: it is {found.status}",
            "run the same command again in some minutes",
        )
    return found


def _must_be_of_a_cluster(found: Snapshot) -> None:
    """Refuse what the stack would not begin from, or would replace by an empty database the next time."""
    hint = "give a snapshot that `det deploy aws down` left, or one of a cluster's database"
    if found.engine not in _ENGINES or found.version.split(".")[0] != _MAJOR:
        raise UsageError(
            f"the snapshot {found.name} is of {found.engine} {found.version}, and a cluster's database is"
            f" PostgreSQL {_MAJOR}",
            hint,
        )
    if found.user != _USER:
        raise UsageError(
            f"the snapshot {found.name} is of a database of the user {found.user}, and a cluster's is {_USER}'s",
            hint,
        )
    if not found.is_encrypted:
        copy = (
            "copy-db-cluster-snapshot --source-db-cluster-snapshot-identifier"
            if found.kind == "aurora"
            else "copy-db-snapshot --source-db-snapshot-identifier"
        )
        raise UsageError(
            f"the snapshot {found.name} is not encrypted",
            f"`aws rds {copy} {found.name} --kms-key-id alias/aws/rds …` makes an encrypted copy",
        )
