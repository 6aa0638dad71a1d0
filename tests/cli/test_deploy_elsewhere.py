"""The removal of clusters with parts in other regions, in the other cloud, or without a label, with fake clouds."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from det_cli.deployment import fleet
from det_cli.deployment.aws_account import Aws
from det_cli.deployment.google import Google

from tests.cli.conftest import CommandResult, Det
from tests.support.aws_account import DATA_BUCKET, Account
from tests.support.fake_api import Raw
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_google import FakeGoogle
from tests.support.fake_terraform import FakeTerraform, error_event
from tests.support.google_project import Project, cause, state

FAR = "eu-west-1"


def config(tmp_path: Path, *regions: str) -> Path:
    provider = {"type": "aws", "regions": list(regions), "instance_type": "g5.xlarge"}
    path = tmp_path / "master.yaml"
    path.write_text(yaml.safe_dump({"resource_pools": [{"pool_name": "p", "provider": provider}]}))
    return path


def down(det: Det, account: Account, *more: str) -> CommandResult:
    return det("deploy", "aws", "down", "--yes", *more, *account.where)


def states(account: Account, region: str) -> list[str]:
    reservations = account.client("ec2", region).describe_instances()["Reservations"]
    return [i["State"]["Name"] for r in reservations for i in r["Instances"]]


@pytest.fixture
def removed(terraform: FakeTerraform) -> FakeTerraform:
    terraform.answers(output={"out": "{}"}, state_pull={"out": '{"resources": []}'})
    return terraform


def test_up_stores_the_locations_of_all_configurations(
    det: Det, account: Account, terraform: FakeTerraform, tmp_path: Path
) -> None:
    terraform.answers(apply={"out": error_event("failed", "it did"), "code": 1})
    up = ("deploy", "aws", "up", "--yes", "--no-preflight-checks", *account.where)
    assert det(*up, "--config", config(tmp_path, "us-west-2", FAR)).code == 1
    assert det(*up, "--config", config(tmp_path, "us-east-2"), "--forget-options").code == 1
    assert account.options()["places"] == [
        ["aws", FAR], ["aws", "us-east-2"], ["aws", "us-west-2"],
    ]  # fmt: skip


@pytest.mark.parametrize("source", ["places", "config"])
def test_rejects_a_removal_with_machines_in_another_region(
    det: Det, account: Account, removed: FakeTerraform, tmp_path: Path, source: str
) -> None:
    """An older cluster has its locations only in its configuration."""
    options = {"config": yaml.safe_load(config(tmp_path, FAR).read_text())}
    account.has_cluster(**({"places": [["aws", FAR]]} if source == "places" else options))
    machine = account.run_machine(FAR)
    result = down(det, account, "--drain-timeout", "0")
    assert result.code == 1
    assert f"1 machines of the cluster are running: {machine} in {FAR} of AWS" in result.err
    assert removed.calls("destroy") == []
    assert states(account, FAR) == ["running"]


def test_force_removes_machines_and_launch_templates_in_every_region(
    det: Det, account: Account, removed: FakeTerraform
) -> None:
    account.has_cluster(places=[["aws", FAR]])
    for region in ("us-west-2", FAR):
        account.run_machine(region)
    account.run_machine(FAR, cluster="other")
    result = down(det, account, "--force")
    assert result.code == 0, result.err
    assert "Terminating 2 machines" in result.err
    assert (states(account, "us-west-2"), sorted(states(account, FAR))) == (
        ["terminated"], ["running", "terminated"],
    )  # fmt: skip
    templates = account.client("ec2", FAR).describe_launch_templates()["LaunchTemplates"]
    assert [t["LaunchTemplateName"] for t in templates] == ["determined-other"]
    assert "all its machines are terminated" in result.out


@pytest.mark.parametrize("region", ["us-west-2", FAR])
def test_warns_about_remaining_tagged_resources(
    det: Det, account: Account, removed: FakeTerraform, region: str
) -> None:
    account.has_cluster(places=[["aws", FAR]])
    tags = [{"Key": "determined-cluster", "Value": "box"}]
    response = account.client("ec2", region).create_vpc(
        CidrBlock="10.1.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": tags}]
    )
    account.make_bucket(DATA_BUCKET)  # kept data does not cause a warning
    account.client("s3").put_bucket_tagging(Bucket=DATA_BUCKET, Tagging={"TagSet": tags})
    result = down(det, account)
    assert result.code == 0, result.err
    (warning,) = [line for line in result.err.splitlines() if "AWS still lists" in line]
    assert f"vpc/{response['Vpc']['VpcId']}, which is normal for a while" in warning
    assert "get-resources --tag-filters Key=determined-cluster,Values=box" in warning
    assert DATA_BUCKET not in warning


def test_finds_resources_without_labels_by_name(project: Project, terraform: FakeTerraform) -> None:
    """Names of another cluster may begin with this cluster's name."""
    google, host = project.google, "acme.iam.gserviceaccount.com"
    google.has_cluster()
    google.leftovers = {
        "networks": ["det-lab"], "repositories": ["det-lab"], "jobs": ["det-lab-tick", "det-lab-2-tick"],
        "accounts": [{"email": f"{name}@{host}"} for name in ("det-lab-prov", "det-lab-2-prov", "ada")],
    }  # fmt: skip
    terraform.answers(state_pull=state())
    assert cause(project.down()) == (
        "these resources of the cluster remain: network det-lab, registry det-lab, schedule det-lab-tick,"
        f" account det-lab-prov@{host}"
    )


def test_status_counts_machines_in_all_locations(
    det: Det, account: Account, removed: FakeTerraform
) -> None:
    account.has_cluster(places=[["aws", FAR]])
    account.run_machine(FAR)
    status = json.loads(det("deploy", "aws", "status", "--json", *account.where).out)
    assert status["machines"] == 1


@pytest.fixture
def signed_out(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)


def test_keeps_the_cluster_if_a_cloud_cannot_be_checked(
    det: Det, account: Account, removed: FakeTerraform, signed_out: None
) -> None:
    account.has_cluster(places=[["gcp", "acme"]])
    result = down(det, account)
    assert result.code == 1
    assert (
        "the machines of the cluster in project acme of Google Cloud cannot be listed: there are no"
        in result.err
    )
    assert "gcloud auth application-default login" in result.err
    assert removed.calls("destroy") == []


def test_force_reports_a_cloud_that_cannot_be_checked(
    det: Det, account: Account, removed: FakeTerraform, signed_out: None
) -> None:
    account.has_cluster(places=[["gcp", "acme"]])
    result = down(det, account, "--force")
    assert result.code == 0, result.err
    assert "all its machines are terminated" not in result.out
    assert "compute/instances?project=acme (label det-cluster: box)" in result.out


def test_a_cluster_on_aws_terminates_its_machines_on_google_cloud(
    det: Det, account: Account, removed: FakeTerraform, google: FakeGoogle, home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    key = google.key(home)

    def there(location: fleet.Location) -> Google:
        return Google(location.name, "", keypath=str(key), endpoint_url=google.url)

    monkeypatch.setattr(fleet, "account_at", there)
    account.has_cluster(places=[["gcp", "acme"]])
    google.run_machine(cluster="box")
    result = down(det, account, "--drain-timeout", "0")
    assert "us-west1-b/det-1-1 in project acme of Google Cloud" in result.err
    outcome = down(det, account, "--force")
    assert (outcome.code, google.instances) == (0, {}), outcome.err


@pytest.mark.parametrize("evidence", ["state", "account"])
def test_keeps_machines_of_a_cluster_with_the_same_name_on_google_cloud(
    det: Det, account: Account, removed: FakeTerraform, google: FakeGoogle, home: Path,
    monkeypatch: pytest.MonkeyPatch, evidence: str,
) -> None:  # fmt: skip
    key = google.key(home)

    def there(location: fleet.Location) -> Google:
        return Google(location.name, "", keypath=str(key), endpoint_url=google.url)

    monkeypatch.setattr(fleet, "account_at", there)
    account.has_cluster(places=[["gcp", "acme"]])
    if evidence == "state":
        google.has_cluster("box")
    else:
        google.leftovers = {"accounts": [{"email": "det-box-api@acme.iam.gserviceaccount.com"}]}
    google.run_machine(cluster="box")
    result = down(det, account)
    assert result.code == 1
    assert "another cluster named box is deployed there" in result.err
    assert removed.calls("destroy") == []
    outcome = down(det, account, "--force")
    assert outcome.code == 0, outcome.err
    assert list(google.instances) == ["us-west1-b/det-1-1"]
    assert "all its machines are terminated" not in outcome.out
    assert "compute/instances?project=acme (label det-cluster: box)" in outcome.out


def test_keeps_machines_of_a_cluster_with_the_same_name_in_another_region(
    det: Det, account: Account, removed: FakeTerraform
) -> None:
    account.has_cluster(places=[["aws", FAR]])
    s3, bucket = account.client("s3", FAR), f"determined-state-123456789012-{FAR}"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": FAR})
    s3.put_object(Bucket=bucket, Key="box/state", Body=b"{}")
    account.run_machine(FAR)
    assert "another cluster named box is deployed there" in down(det, account).err
    result = down(det, account, "--force")
    assert (result.code, states(account, FAR)) == (0, ["running"]), result.err
    templates = account.client("ec2", FAR).describe_launch_templates()["LaunchTemplates"]
    assert [t["LaunchTemplateName"] for t in templates] == ["determined-box"]


def test_a_cluster_on_google_cloud_terminates_its_machines_on_aws(
    project: Project, terraform: FakeTerraform, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", account.url)
    terraform.answers(output={"out": "{}"}, state_pull=state())
    project.google.has_cluster(places=[["aws", FAR]])
    machine = account.run_machine(FAR, cluster="lab")
    result = project.down("--drain-timeout", "0")
    assert f"{machine} in {FAR} of AWS" in cause(result)
    outcome = project.down("--force")
    assert (outcome.code, states(account, FAR)) == (0, ["terminated"]), outcome.err


def test_reports_a_missing_library_of_the_other_cloud(
    project: Project, terraform: FakeTerraform, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Any = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "boto3" else real(name, *a)
    )  # fmt: skip
    project.google.has_cluster(places=[["aws", FAR]])
    result = project.down()
    assert "in eu-west-1 of AWS cannot be listed: boto3 is missing" in cause(result)
    assert "determined-serverless[aws]" in result.err


def test_uses_the_profile_in_every_region(
    det: Det, account: Account, removed: FakeTerraform, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles: list[Any] = []
    real = boto3.session.Session

    def session(*, profile_name: str | None = None) -> Any:
        profiles.append(profile_name)
        return real()

    monkeypatch.setattr(boto3.session, "Session", session)
    account.has_cluster(places=[["aws", FAR]])
    assert down(det, account, "--profile", "lab").code == 0
    assert set(profiles) == {"lab"}


def test_loads_each_service_of_a_region_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading EC2's description takes half a second. The session loads it once for all regions."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    here = Aws("us-west-2")
    far = here.at(FAR)
    assert (far.region, far.at("us-west-2"), here.at(FAR)) == (FAR, here, far)
    client = here.client("ec2")
    assert here.client("ec2") is client
    assert here.client_for_one_try("ec2", 5) is not client
    assert far.client("ec2").meta.region_name == FAR
    assert far._session is here._session


def test_drains_work_before_machines_terminate(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    """Both agents are idle, so the drain does not wait."""
    account.has_cluster()
    account.run_machine()
    outputs = {"url": cluster.url, "initial_user_password": "Secret123"}
    output = {"out": json.dumps({name: {"value": value} for name, value in outputs.items()})}
    terraform.answers(output=output, state_pull={"out": '{"resources": []}'})
    cluster.on("GET", "/api/v1/rented-pools", {"pools": [{"name": "gpus", "hold": None}]})
    cluster.on("POST", "/api/v1/rented-pools/gpus/hold", {})
    agents: list[dict[str, Any]] = [{"id": name, "containers": {}} for name in ("a", "b")]
    cluster.on("GET", "/api/v1/agents", {"agents": agents})
    cluster.on("POST", "/api/v1/agents/([ab])/disable", {})
    result = down(det, account)
    assert result.code == 0, result.err
    assert [request.body for request in cluster.sent("POST", "/api/v1/agents/.*")] == [
        {"drain": True}, {"drain": True},
    ]  # fmt: skip
    assert cluster.sent("POST", "/api/v1/rented-pools/gpus/hold")
    assert states(account, "us-west-2") == ["terminated"]


def test_an_unreachable_cluster_keeps_its_machines_without_force(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    account.has_cluster()
    machine = account.run_machine()
    terraform.answers(output={"out": json.dumps({"url": {"value": cluster.url}})})
    cluster.on("GET", "/health", Raw(b"{}", status=500))
    result = down(det, account)
    assert f"1 machines of the cluster are running: {machine}" in result.err
    assert "it cannot request checkpoints: --force terminates the machines" in result.err
    assert states(account, "us-west-2") == ["running"]
