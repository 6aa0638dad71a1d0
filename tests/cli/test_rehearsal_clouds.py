"""The clouds beside a cluster, as a rehearsal asks them: AWS by moto, Google Cloud by a fake of its answers."""

from datetime import datetime, timedelta, timezone

import pytest
from det_cli.deployment.aws_account import Aws
from det_cli.deployment.google import Google
from det_cli.deployment.rehearsal.aws_cloud import AwsCloud
from det_cli.deployment.rehearsal.cluster_client import Machine
from det_cli.deployment.rehearsal.google_cloud import GoogleCloud
from det_cli.deployment.rehearsal.records import StepFailed

from tests.support.aws_account import Account
from tests.support.google_project import Project
from tests.support.rehearsed import START


@pytest.fixture
def cloud(account: Account) -> AwsCloud:
    return AwsCloud(Aws("us-west-2", account.url), "box", "aurora")


def test_schedules_of_aws_that_are_on_are_found(account: Account, cloud: AwsCloud) -> None:
    scheduler = account.client("scheduler")
    for name, switched in (("tick", "ENABLED"), ("provision", "DISABLED")):
        scheduler.create_schedule(
            Name=name, State=switched, ScheduleExpression="rate(1 minute)",
            FlexibleTimeWindow={"Mode": "OFF"}, Target={"Arn": "arn:aws:lambda:x", "RoleArn": "arn:aws:iam:x"},
        )  # fmt: skip
    assert cloud.schedules_on(["tick", "provision"]) == ["tick"]


@pytest.mark.parametrize(("units", "is_paused"), [(0.0, True), (0.5, False)])
def test_the_newest_capacity_of_aurora_says_whether_it_pauses(
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


def test_a_database_without_figures_is_not_judged(account: Account, cloud: AwsCloud) -> None:
    found = cloud.database()
    assert (found.is_paused, "no capacity" in found.sentence) == (None, True)


def test_a_reclaim_on_aws_terminates_the_instance(account: Account, cloud: AwsCloud) -> None:
    id = account.run_machine()
    assert cloud.machines() == [id]
    assert id in cloud.reclaim(machine("aws", id))
    assert cloud.machines() == []


def test_a_machine_of_the_other_cloud_is_not_reclaimed(account: Account, cloud: AwsCloud) -> None:
    with pytest.raises(StepFailed, match="is not a machine of AWS"):
        cloud.reclaim(machine("gcp", "acme/det-1"))


def test_the_objects_of_a_checkpoint_are_listed(account: Account, cloud: AwsCloud) -> None:
    account.make_bucket("data")
    for key in ("u1/state.json", "u2/state.json"):
        account.client("s3").put_object(Bucket="data", Key=key, Body=b"{}")
    assert cloud.stored("data", "u1") == ["u1/state.json"]


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


def test_jobs_of_google_cloud_that_are_on_are_found(
    project: Project, in_google: GoogleCloud
) -> None:
    project.google.leftovers["jobs"] = ["det-lab-tick", "det-lab-provision"]
    project.google.running_jobs = {"det-lab-tick"}
    names = ["det-lab-tick", "det-lab-provision", "det-lab-gone"]
    assert in_google.schedules_on(names) == ["det-lab-tick"]


def test_a_reclaim_on_google_cloud_is_a_maintenance_event(
    project: Project, in_google: GoogleCloud
) -> None:
    project.google.run_machine("det-1-1")
    project.google.run_machine("det-1-2")
    assert "us-west1-b/det-1-2" in in_google.reclaim(machine("gcp", "acme/det-1-2"))
    assert in_google.machines() == ["us-west1-b/det-1-1"]


def test_a_machine_that_the_project_does_not_have_is_not_reclaimed(in_google: GoogleCloud) -> None:
    with pytest.raises(StepFailed, match="project acme has no machine det-1-2"):
        in_google.reclaim(machine("gcp", "acme/det-1-2"))


def test_cloud_sql_never_pauses(in_google: GoogleCloud) -> None:
    assert in_google.database().is_paused is None


def test_the_objects_of_a_checkpoint_in_google_cloud_are_listed(
    project: Project, in_google: GoogleCloud
) -> None:
    project.google.buckets["data"] = {"u1/state.json": b"{}", "u2/state.json": b"{}"}
    assert in_google.stored("data", "u1") == ["u1/state.json"]
