"""The cloud clients of a rehearsal. Moto serves AWS, and a fake serves Google Cloud."""

from datetime import datetime, timedelta, timezone

import pytest
from det_cli.deployment.aws_account import Aws
from det_cli.deployment.google import Google
from det_cli.deployment.rehearsal.aws_cloud import AwsCloud
from det_cli.deployment.rehearsal.cluster_client import Machine
from det_cli.deployment.rehearsal.google_cloud import GoogleCloud
from det_cli.deployment.rehearsal.records import StepFailed
from det_cli.errors import CommandError

from tests.support.aws_account import Account
from tests.support.google_project import Project
from tests.support.moto_buckets import Ownership
from tests.support.rehearsed import START


@pytest.fixture
def cloud(account: Account) -> AwsCloud:
    return AwsCloud(Aws("us-west-2", account.url), "box", "aurora")


def test_enabled_schedules_of_aws_are_listed(account: Account, cloud: AwsCloud) -> None:
    scheduler = account.client("scheduler")
    for name, state in (("tick", "ENABLED"), ("provision", "DISABLED")):
        scheduler.create_schedule(
            Name=name, State=state, ScheduleExpression="rate(1 minute)",
            FlexibleTimeWindow={"Mode": "OFF"}, Target={"Arn": "arn:aws:lambda:x", "RoleArn": "arn:aws:iam:x"},
        )  # fmt: skip
    assert cloud.schedules_on(["tick", "provision"]) == ["tick"]


@pytest.mark.parametrize(("units", "is_paused"), [(0.0, True), (0.5, False)])
def test_newest_aurora_capacity_decides_if_database_is_paused(
    account: Account, cloud: AwsCloud, units: float, is_paused: bool
) -> None:
    now = datetime.now(timezone.utc)
    for age_min, value in ((9, 1.0), (2, units)):
        account.client("cloudwatch").put_metric_data(
            Namespace="AWS/RDS",
            MetricData=[{
                "MetricName": "ServerlessDatabaseCapacity", "Value": value,
                "Dimensions": [{"Name": "DBClusterIdentifier", "Value": "det-box"}],
                "Timestamp": now - timedelta(minutes=age_min),
            }],
        )  # fmt: skip
    assert cloud.database().is_paused is is_paused


def test_database_without_metrics_has_unknown_state(account: Account, cloud: AwsCloud) -> None:
    state = cloud.database()
    assert (state.is_paused, "no database capacity" in state.sentence) == (None, True)


def test_aws_reclaim_terminates_the_instance(account: Account, cloud: AwsCloud) -> None:
    id = account.run_machine()
    assert cloud.machines() == [id]
    assert id in cloud.reclaim(machine("aws", id))
    assert cloud.machines() == []


def test_machine_of_another_cloud_is_not_reclaimed(account: Account, cloud: AwsCloud) -> None:
    with pytest.raises(StepFailed, match="is not an AWS machine"):
        cloud.reclaim(machine("gcp", "acme/det-1"))


def test_s3_objects_of_checkpoint_are_listed(account: Account, cloud: AwsCloud) -> None:
    account.make_bucket("data")
    for key in ("u1/state.json", "u2/state.json"):
        account.client("s3").put_object(Bucket="data", Key=key, Body=b"{}")
    assert cloud.stored("data", "u1") == ["u1/state.json"]


def test_checkpoint_in_a_bucket_of_another_account_is_not_listed(
    cloud: AwsCloud, buckets: Ownership
) -> None:
    buckets.taken_by_a_stranger("data")
    with pytest.raises(
        CommandError, match="the bucket data cannot be used: it belongs to another account"
    ):
        cloud.stored("data", "u1")
    assert buckets.unchecked == []


def machine(provider: str, cloud_id: str) -> Machine:
    return Machine(
        id="1", pool="gpus", provider=provider, region="us-west-2", offer=f"{provider} g4dn spot",
        capacity="spot", cloud_id=cloud_id, agent_id="a", cost_usd=0.0, requested_at=START,
        launched_at=None, registered_at=None, ended_at=None,
    )  # fmt: skip


@pytest.fixture
def in_google(project: Project) -> GoogleCloud:
    google = Google("acme", "us-west1", keypath=str(project.key), endpoint_url=project.google.url)
    return GoogleCloud(google, "lab")


def test_enabled_jobs_of_google_cloud_are_listed(project: Project, in_google: GoogleCloud) -> None:
    project.google.leftovers["jobs"] = ["det-lab-tick", "det-lab-provision"]
    project.google.running_jobs = {"det-lab-tick"}
    names = ["det-lab-tick", "det-lab-provision", "det-lab-gone"]
    assert in_google.schedules_on(names) == ["det-lab-tick"]


def test_google_cloud_reclaim_simulates_a_maintenance_event(
    project: Project, in_google: GoogleCloud
) -> None:
    project.google.run_machine("det-1-1")
    project.google.run_machine("det-1-2")
    assert "us-west1-b/det-1-2" in in_google.reclaim(machine("gcp", "acme/det-1-2"))
    assert in_google.machines() == ["us-west1-b/det-1-1"]


def test_unknown_machine_is_not_reclaimed(in_google: GoogleCloud) -> None:
    with pytest.raises(StepFailed, match="project acme has no machine det-1-2"):
        in_google.reclaim(machine("gcp", "acme/det-1-2"))


def test_cloud_sql_never_pauses(in_google: GoogleCloud) -> None:
    assert in_google.database().is_paused is None


def test_google_cloud_objects_of_checkpoint_are_listed(
    project: Project, in_google: GoogleCloud
) -> None:
    project.google.buckets["data"] = {"u1/state.json": b"{}", "u2/state.json": b"{}"}
    assert in_google.stored("data", "u1") == ["u1/state.json"]
