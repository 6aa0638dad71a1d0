"""`det deploy aws image` and `gcp image`: a machine becomes an image, and no machine remains."""

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from det_cli.deployment import machine_image
from det_controlplane.entry.aws import packaging
from moto.core.responses import ActionResult
from moto.core.types import Base64EncodedString
from moto.ec2.models.instances import InstanceBackend
from moto.ec2.responses.general import General

from tests.cli.conftest import CommandResult, Det
from tests.support.aws_account import Account
from tests.support.fake_google_images import Baking
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import Project

DONE = "cloud-init: …\ndetermined-image: agent\ndetermined-image: done\n"
FAILED = (
    "determined-image: agent\nE: no network\ndetermined-image: failed at line 9 with status 1\n"
)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("machine_image", "aws_images", "google_images"):
        monkeypatch.setattr(f"det_cli.deployment.{name}.LOOK_S", 0.001)


# AWS


class Cloud:
    """The account, with the network of the cluster and a console that the test writes."""

    def __init__(self, account: Account, det: Det, terraform: FakeTerraform) -> None:
        self.account, self._det = account, det
        self.ec2 = account.client("ec2")
        self.consoles: Callable[[], str] = lambda: DONE
        subnet = self.ec2.describe_subnets()["Subnets"][0]
        group = self.ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
        outputs = {
            "url": "https://cluster.example",
            "machine_subnet_ids": [subnet["SubnetId"]],
            "machine_security_group_id": group,
        }
        values = {name: {"value": value} for name, value in outputs.items()}
        terraform.answers(output={"out": json.dumps(values)})

    def run(self, *more: str) -> CommandResult:
        base = ("--base-image", "ami-12c6146b")
        return self._det("deploy", "aws", "image", "--yes", *self.account.where, *base, *more)

    def machines(self) -> list[dict[str, Any]]:
        found = self.ec2.describe_instances()["Reservations"]
        return [i for r in found for i in r["Instances"]]

    def alive(self) -> list[str]:
        return [
            i["InstanceId"]
            for i in self.machines()
            if i["State"]["Name"] not in ("terminated", "shutting-down")
        ]

    def images(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ec2.describe_images(Owners=["self"])["Images"]
        return [image for image in found if image["Name"].startswith("det-box-")]

    def snapshots(self) -> list[dict[str, Any]]:
        found = self.ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]
        return [s for s in found if s["Description"].startswith("Created by CreateImage")]


@pytest.fixture
def cloud(
    account: Account, det: Det, terraform: FakeTerraform, monkeypatch: pytest.MonkeyPatch
) -> Cloud:
    account.has_cluster()
    made = Cloud(account, det, terraform)

    def console(self: General) -> ActionResult:
        id = self._get_param("InstanceId")
        now = datetime.now(timezone.utc)
        return ActionResult(
            {
                "InstanceId": id,
                "Timestamp": now,
                "Output": Base64EncodedString.from_raw_string(made.consoles()),
            }
        )

    monkeypatch.setattr(General, "get_console_output", console)
    return made


def test_image_on_aws_is_registered_and_its_machine_terminated(cloud: Cloud) -> None:
    result = cloud.run()
    assert result.code == 0, result.err
    (image,), (snapshot,) = cloud.images(), cloud.snapshots()
    assert {"Key": "determined-image-of", "Value": "box"} in image["Tags"]
    assert {"Key": "determined-image-of", "Value": "box"} in snapshot["Tags"]
    assert cloud.alive() == []
    assert f"default pools: {image['ImageId']}" in result.out
    assert "det deploy aws up --cluster-id box --region us-west-2" in result.out
    assert cloud.account.options()["environment_image"] == image["ImageId"]


def test_machine_on_aws_is_not_one_that_the_cluster_would_end(cloud: Cloud) -> None:
    cloud.run()
    (machine,) = cloud.machines()
    tags = {tag["Key"]: tag["Value"] for tag in machine["Tags"]}
    assert tags["determined-image-of"] == "box"
    assert "determined-cluster" not in tags
    behaviour = cloud.ec2.describe_instance_attribute(
        InstanceId=machine["InstanceId"], Attribute="instanceInitiatedShutdownBehavior"
    )
    assert behaviour["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"


@pytest.mark.parametrize("word", [FAILED, "determined-image: agent\n"], ids=["failed", "ended"])
def test_failed_script_on_aws_leaves_no_machine_and_no_image(cloud: Cloud, word: str) -> None:
    def console() -> str:
        if word != FAILED:  # the machine ends before the script is done
            cloud.ec2.stop_instances(InstanceIds=cloud.alive())
        return word

    cloud.consoles = console
    result = cloud.run()
    assert result.code == 1
    assert "the image could not be made" in result.err
    assert word.splitlines()[-1] in result.err
    assert (cloud.alive(), cloud.images()) == ([], [])
    assert "environment_image" not in cloud.account.options()


def test_interrupted_script_on_aws_leaves_no_machine(cloud: Cloud) -> None:
    waits = iter([""])

    def console() -> str:
        return next(waits, DONE)

    cloud.consoles = console
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("det_cli.deployment.machine_image._wait_for_script", _interrupt)
        result = cloud.run()
    assert result.code == 1
    assert "the machine is terminated and no image was stored" in result.err
    assert cloud.machines() != []
    assert (cloud.alive(), cloud.images()) == ([], [])


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def test_launch_whose_answer_is_lost_leaves_no_machine(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = InstanceBackend.run_instances

    def launch_and_break(self: Any, *args: Any, **options: Any) -> Any:
        launch(self, *args, **options)
        raise RuntimeError("the connection breaks")

    monkeypatch.setattr(InstanceBackend, "run_instances", launch_and_break)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    result = cloud.run()
    assert result.code != 0
    assert cloud.machines() != []
    assert cloud.alive() == []


def test_image_that_aws_cannot_finish_is_deleted(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("det_cli.deployment.aws_images.Ec2Builder._is_available", _interrupt)
    result = cloud.run()
    assert result.code == 1
    assert (cloud.alive(), cloud.images(), cloud.snapshots()) == ([], [], [])


def test_next_run_terminates_the_machine_of_a_killed_run(cloud: Cloud) -> None:
    tag = [{"Key": "determined-image-of", "Value": "box"}]
    tags = [{"ResourceType": "instance", "Tags": tag}]
    left = cloud.ec2.run_instances(
        ImageId="ami-12c6146b", MinCount=1, MaxCount=1, TagSpecifications=tags
    )["Instances"][0]["InstanceId"]
    result = cloud.run()
    assert f"Terminated {left}, which an interrupted run left" in result.err
    assert cloud.alive() == []


POOLS = [
    {"pool_name": "gpu", "provider": {"type": "aws", "image_id": "ami-old"}},
    {
        "pool_name": "both",
        "offers": [{"type": "aws", "region": "us-west-2"}, {"type": "gcp", "region": "us-west1"}],
    },
    {"pool_name": "far", "provider": {"type": "aws", "region": "eu-west-1"}},
]


def with_pools(cloud: Cloud) -> None:
    body = json.dumps({"var": [], "config": {"resource_pools": POOLS}}).encode()
    (bucket,) = (b["Name"] for b in cloud.account.client("s3").list_buckets()["Buckets"])
    cloud.account.client("s3").put_object(Bucket=bucket, Key="box/options.json", Body=body)


def test_image_is_set_in_each_section_of_its_region(cloud: Cloud) -> None:
    with_pools(cloud)
    result = cloud.run()
    assert result.code == 0, result.err
    gpu, both, far = cloud.account.options()["config"]["resource_pools"]
    image = cloud.images()[0]["ImageId"]
    assert gpu["provider"]["image_id"] == both["offers"][0]["image_id"] == image
    assert (both["offers"][1], far) == (POOLS[1]["offers"][1], POOLS[2])  # type: ignore[index]
    assert "set image_id in its pools, too" in result.err


def test_roll_back_returns_to_the_image_before(cloud: Cloud) -> None:
    with_pools(cloud)
    assert cloud.run("--pool", "gpu", "--use", "ami-new").code == 0
    assert cloud.machines() == []
    result = cloud.run("--roll-back")
    assert result.code == 0, result.err
    assert cloud.account.options()["config"]["resource_pools"] == POOLS
    assert "back to ami-new" in result.out
    assert cloud.run("--roll-back").code == 0
    assert (
        cloud.account.options()["config"]["resource_pools"][0]["provider"]["image_id"] == "ami-new"
    )


def test_roll_back_of_the_first_image_returns_to_the_default(cloud: Cloud) -> None:
    cloud.run("--use", "ami-new")
    cloud.run("--roll-back")
    assert cloud.account.options()["environment_image"] is None


def test_roll_back_without_an_earlier_image_is_refused(cloud: Cloud) -> None:
    result = cloud.run("--roll-back")
    assert result.code == 2
    assert "no earlier image is stored" in result.err


def test_pool_that_rents_elsewhere_is_refused_before_a_machine_is_rented(cloud: Cloud) -> None:
    with_pools(cloud)
    result = cloud.run("--pool", "far")
    assert result.code == 2
    assert "pools that rent on aws in us-west-2: gpu, both" in result.err
    assert cloud.machines() == []


def test_script_installs_the_clusters_own_agent_and_pulls_the_images() -> None:
    recipe = machine_image.Recipe("box", "https://c/", "m5", "ami", ("a b; rm", "two"))
    script = machine_image.script_of(recipe)
    assert "https://c/agents/v1/wheel)" in script
    assert "PULL_IMAGES='a b; rm two' bash" in script
    assert 'step "done"' in script
    assert "sleep 5400; poweroff" in script


def test_next_up_gives_the_image_to_the_default_pools(
    cloud: Cloud, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    configurations: list[dict[str, Any]] = []

    def build(out: Path, files: dict[str, bytes]) -> Path:
        configurations.append(yaml.safe_load(files["cluster.yaml"]))
        (out / "deployment.zip").write_bytes(b"zip")
        return out / "deployment.zip"

    monkeypatch.setattr(packaging, "build", build)
    cloud.run("--use", "ami-new")
    result = det("deploy", "aws", "up", "--dry-run", *cloud.account.where)
    assert result.code == 0, result.err
    pools = configurations[0]["resource_pools"]
    assert [pool["provider"]["image_id"] for pool in pools] == ["ami-new", "ami-new"]


# Google Cloud


@pytest.fixture
def baking(project: Project, terraform: FakeTerraform) -> Baking:
    project.google.has_cluster()
    outputs = {"url": "https://cluster.example", "machine_subnetwork": "projects/acme/…/det-lab"}
    values = {name: {"value": value} for name, value in outputs.items()}
    terraform.answers(output={"out": json.dumps(values)})
    return Baking(project.google, DONE)


def bake(project: Project, *more: str) -> CommandResult:
    return project.run("image", "--cluster-id", "lab", "--yes", *more)


def test_image_on_google_cloud_is_registered_and_its_machine_deleted(
    project: Project, baking: Baking
) -> None:
    result = bake(project)
    assert result.code == 0, result.err
    (name,) = baking.images
    path = f"projects/acme/global/images/{name}"
    assert f"default pools: {path}" in result.out
    assert project.google.instances == {}
    options = json.loads(project.google.buckets["acme-determined-deploy"]["lab/options.json"])
    assert options["environment_image"] == path


def test_machine_on_google_cloud_has_a_time_limit_and_no_label_of_the_cluster(
    project: Project, baking: Baking
) -> None:
    bake(project)
    (machine,) = baking.started
    assert machine["scheduling"]["maxRunDuration"] == {"seconds": "5400"}
    assert machine["scheduling"]["instanceTerminationAction"] == "DELETE"
    assert machine["labels"] == {"det-image-of": "lab"}
    assert "serviceAccounts" not in machine


@pytest.mark.parametrize("step", ["script", "image", "interrupt"])
def test_failure_on_google_cloud_leaves_no_machine_and_no_image(
    project: Project, baking: Baking, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if step == "script":
        baking.console = FAILED
    elif step == "image":
        baking.image_error = "QUOTA_EXCEEDED: images"
    else:
        monkeypatch.setattr("det_cli.deployment.machine_image._wait_for_script", _interrupt)
    result = bake(project)
    assert result.code == 1
    assert len(baking.started) == 1
    assert (project.google.instances, baking.images) == ({}, {})


def test_next_run_deletes_the_machine_of_a_killed_run_on_google_cloud(
    project: Project, baking: Baking
) -> None:
    machine = {"name": "old", "zone": "zones/us-west1-b", "labels": {"det-image-of": "lab"}}
    project.google.instances["us-west1-b/old"] = machine
    result = bake(project)
    assert "Terminated old, which an interrupted run left" in result.err
    assert project.google.instances == {}


def test_region_without_the_machine_type_is_refused(project: Project, baking: Baking) -> None:
    result = bake(project, "--machine-type", "m9-huge")
    assert result.code == 1
    assert "no zone of us-west1 has m9-huge" in result.err
    assert baking.started == []
