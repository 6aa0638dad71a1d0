"""RDS snapshots, from which a removed cluster can be restored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from det_cli.deployment.aws_preflight import AccountQueries
from det_cli.errors import CommandError, MissingError, UsageError

_ENGINES = {"aurora-postgresql": "aurora", "postgres": "rds"}
_OTHER_KIND = {
    "aurora": "leave --db-instance-type, --deployment-type and --var database=rds out (add --forget-options if an"
    " earlier run stored them)",
    "rds": "give --var database=rds",
}
_MAJOR = "16"  # the PostgreSQL version of the stack
_USER = "determined"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of an Aurora cluster or an RDS instance."""

    name: str
    arn: str
    database: str  # the identifier of the database in the snapshot
    engine: str
    version: str
    status: str
    user: str
    is_encrypted: bool
    disk_gb: int
    made_at: str

    @property
    def kind(self) -> str:
        """Return the stack's name for the kind of database, or the engine if the stack does not support it."""
        return _ENGINES.get(self.engine, self.engine)

    def variable(self) -> dict[str, Any]:
        """Return the value of the stack variable for this snapshot."""
        return {"name": self.arn, "version": self.version, "disk_gb": self.disk_gb}


def snapshots(aws: AccountQueries) -> Iterator[Snapshot]:
    """Return all snapshots that the account may restore in the region."""
    rds = aws.client("rds")
    for page in rds.get_paginator("describe_db_cluster_snapshots").paginate(IncludeShared=True):
        yield from (_read(s, "DBCluster") for s in page["DBClusterSnapshots"])
    for page in rds.get_paginator("describe_db_snapshots").paginate(IncludeShared=True):
        yield from (_read(s, "DB") for s in page["DBSnapshots"])


def _read(item: Mapping[str, Any], prefix: str) -> Snapshot:
    database_key = "DBClusterIdentifier" if prefix == "DBCluster" else "DBInstanceIdentifier"
    return Snapshot(
        name=str(item[f"{prefix}SnapshotIdentifier"]),
        arn=str(item[f"{prefix}SnapshotArn"]),
        database=str(item[database_key]),
        engine=str(item["Engine"]),
        version=str(item.get("EngineVersion") or ""),
        status=str(item["Status"]),
        user=str(item.get("MasterUsername") or ""),
        is_encrypted=bool(item.get("StorageEncrypted", item.get("Encrypted", False))),
        disk_gb=int(item.get("AllocatedStorage") or 0),
        made_at=str(item.get("SnapshotCreateTime") or ""),
    )


def last_of(aws: AccountQueries, database: str) -> Snapshot | None:
    """Return the newest final snapshot of a removed database, or None."""
    final = f"{database}-final"
    finals = [s for s in snapshots(aws) if s.database == database and s.name.startswith(final)]
    return max(finals, key=lambda s: s.made_at, default=None)


def has_database(aws: AccountQueries, database: str) -> bool:
    """Return True if a database of either kind has this name."""
    from botocore.exceptions import ClientError

    rds = aws.client("rds")
    queries = (
        (rds.describe_db_clusters, "DBClusterIdentifier"),
        (rds.describe_db_instances, "DBInstanceIdentifier"),
    )
    for describe, name in queries:
        try:
            describe(**{name: database})
        except ClientError as e:
            if "NotFound" not in e.response["Error"]["Code"]:
                raise
        else:
            return True
    return False


def find(aws: AccountQueries, name: str, kind: str) -> Snapshot:
    """Return the snapshot with this name or ARN, if it can be restored into this kind of database.

    Raises MissingError or UsageError if there is none, and CommandError if it is not complete.
    """
    existing = list(snapshots(aws))
    snapshot = next((s for s in existing if name in (s.name, s.arn)), None)
    if snapshot is None:
        ours = sorted(s.name for s in existing if s.kind in _OTHER_KIND and s.user == _USER)
        raise MissingError(
            f"there is no snapshot {name} in {aws.region}; snapshots here: {', '.join(ours) or 'none'}",
            "give another --db-snapshot, or another --region",
        )
    if snapshot.kind != kind and snapshot.kind in _OTHER_KIND:
        names = {"aurora": "Aurora", "rds": "an instance of RDS"}
        raise UsageError(
            f"the snapshot {name} is from {names[snapshot.kind]}, but the new database is {names[kind]}",
            _OTHER_KIND[snapshot.kind],
        )
    _check_restorable(snapshot)
    if snapshot.status != "available":
        raise CommandError(
            f"the snapshot {name} is not complete: it is {snapshot.status}",
            "run the same command again in some minutes",
        )
    return snapshot


def _check_restorable(snapshot: Snapshot) -> None:
    """Raise UsageError for a snapshot that the stack cannot restore or would later replace with an empty database."""
    hint = (
        "give a snapshot that `det deploy aws down` created, or a snapshot of a cluster's database"
    )
    if snapshot.engine not in _ENGINES or snapshot.version.split(".")[0] != _MAJOR:
        raise UsageError(
            f"the snapshot {snapshot.name} is from {snapshot.engine} {snapshot.version}, but a cluster's database is"
            f" PostgreSQL {_MAJOR}",
            hint,
        )
    if snapshot.user != _USER:
        raise UsageError(
            f"the snapshot {snapshot.name} has the database user {snapshot.user}, but a cluster uses {_USER}",
            hint,
        )
    if not snapshot.is_encrypted:
        copy = (
            "copy-db-cluster-snapshot --source-db-cluster-snapshot-identifier"
            if snapshot.kind == "aurora"
            else "copy-db-snapshot --source-db-snapshot-identifier"
        )
        raise UsageError(
            f"the snapshot {snapshot.name} is not encrypted",
            f"`aws rds {copy} {snapshot.name} --kms-key-id alias/aws/rds …` makes an encrypted copy",
        )
