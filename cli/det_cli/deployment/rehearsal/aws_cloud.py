"""The AWS account of a rehearsed cluster: its machines, schedules, database and objects."""

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from det_cli.deployment.aws_account import Aws, translate_errors
from det_cli.deployment.rehearsal.cluster_client import Machine
from det_cli.deployment.rehearsal.records import StepFailed
from det_cli.deployment.rehearsal.stage import DatabaseState

_LATEST = timedelta(minutes=15)


class AwsCloud:
    """The account of a cluster on AWS."""

    name = "AWS"
    storage_type = "s3"

    def __init__(self, account: Aws, cluster_id: str, database: str) -> None:
        self._account = account
        self._cluster_id = cluster_id
        self._database = database  # aurora or rds

    def machines(self) -> Sequence[str]:
        return self._account.machines(self._cluster_id)

    @translate_errors()
    def schedules_on(self, names: Sequence[str]) -> Sequence[str]:
        scheduler = self._account.client("scheduler")
        return [name for name in names if scheduler.get_schedule(Name=name)["State"] == "ENABLED"]

    @translate_errors()
    def database(self) -> DatabaseState:
        """Return the state of Aurora, from its newest capacity in CloudWatch."""
        if self._database != "aurora":
            return DatabaseState(None, "the database is an RDS instance, which always runs")
        now = datetime.now(timezone.utc)
        points = self._account.client("cloudwatch").get_metric_statistics(
            Namespace="AWS/RDS", MetricName="ServerlessDatabaseCapacity",
            Dimensions=[{"Name": "DBClusterIdentifier", "Value": f"det-{self._cluster_id}".lower()}],
            StartTime=now - _LATEST, EndTime=now, Period=60, Statistics=["Maximum"],
        )["Datapoints"]  # fmt: skip
        if not points:
            return DatabaseState(
                None, "CloudWatch has no database capacity for the last 15 minutes"
            )
        newest = max(points, key=lambda point: point["Timestamp"])
        units = float(newest["Maximum"])
        state = "paused" if units == 0 else f"awake with {units:g} capacity units"
        return DatabaseState(
            units == 0, f"the database was {state} at {newest['Timestamp']:%H:%M} UTC"
        )

    def reclaim(self, machine: Machine) -> str:
        """Terminate the instance. Only AWS itself and its Fault Injection Service can send a real notice."""
        if machine.provider != "aws":
            raise StepFailed(
                f"{machine.offer} is not an AWS machine",
                "give a pool that rents on AWS with --pool",
            )
        self._account.at(machine.region).terminate([machine.cloud_id])
        return f"terminated {machine.cloud_id} without a notice"

    @translate_errors()
    def stored(self, bucket: str, checkpoint: str) -> Sequence[str]:
        return self._account.objects(bucket, f"{checkpoint}/")
