"""The machine on EC2 that becomes an image. Its tag differs from the tag of rented machines, which the cluster ends."""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from det_cli.deployment.aws_account import Aws
from det_cli.deployment.machine_image import LOOK_S, Recipe
from det_cli.errors import CommandError

IMAGE_TAG, _RUN_TAG = "determined-image-of", "determined-image-run"
BASE_IMAGE = (
    "ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
)
MACHINE_TYPE = "m5.xlarge"
_ALIVE = ["pending", "running", "stopping", "stopped"]
_REGISTER_S = 3600.0


class Ec2Builder:
    """Bakes an image of a cluster in its public or private subnet, without a key or a role on the machine."""

    def __init__(
        self,
        account: Aws,
        cluster_id: str,
        network: dict[str, Any],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._ec2, self._account = account.client("ec2"), account
        self._cluster_id, self._network, self._pause = cluster_id, network, pause
        self._run = secrets.token_hex(8)
        self._machine = self._image = ""
        self._is_registered = False

    def leftovers(self) -> Sequence[str]:
        machines = self._machines(IMAGE_TAG, self._cluster_id)
        self._terminate(machines)
        return machines

    def start(self, recipe: Recipe, script: str) -> str:
        image = self._base(recipe.base_image)
        tags = [
            {"Key": IMAGE_TAG, "Value": self._cluster_id},
            {"Key": _RUN_TAG, "Value": self._run},
            {"Key": "Name", "Value": f"det-{self._cluster_id}-image"},
        ]
        disk = {
            "VolumeSize": max(recipe.disk_gb, self._least_gb(image)),
            "VolumeType": "gp3",
            "DeleteOnTermination": True,
        }
        response = self._ec2.run_instances(
            ImageId=image["ImageId"], InstanceType=recipe.machine_type, MinCount=1, MaxCount=1,
            ClientToken=self._run, UserData=script,
            # The script powers the machine off if nobody stops it earlier.
            InstanceInitiatedShutdownBehavior="terminate",
            MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
            NetworkInterfaces=[{"DeviceIndex": 0, **self._network}],
            BlockDeviceMappings=[{"DeviceName": image["RootDeviceName"], "Ebs": disk}],
            TagSpecifications=[{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume")],
        )  # fmt: skip
        self._machine = str(response["Instances"][0]["InstanceId"])
        return self._machine

    def _base(self, name: str) -> Any:
        """Return the base image, by its id or by `ssm:` and the name of a parameter."""
        if name.startswith("ssm:"):
            parameter = self._account.client("ssm").get_parameter(Name=name.removeprefix("ssm:"))
            name = parameter["Parameter"]["Value"]
        images = self._ec2.describe_images(ImageIds=[name])["Images"]
        if not images:
            raise CommandError(f"there is no image {name}", "give --base-image AMI")
        return images[0]

    @staticmethod
    def _least_gb(image: Any) -> int:
        disks = image.get("BlockDeviceMappings", ())
        return max((int(d.get("Ebs", {}).get("VolumeSize", 0)) for d in disks), default=0)

    def console(self) -> str:
        response = self._ec2.get_console_output(InstanceId=self._machine, Latest=True)
        return str(response.get("Output") or "")

    def is_running(self) -> bool:
        return self._account.state_of(self._machine) in ("pending", "running")

    def register(self, name: str) -> str:
        self._ec2.stop_instances(InstanceIds=[self._machine])
        self._wait(lambda: self._account.state_of(self._machine) == "stopped", "stop the machine")
        tags = [{"Key": IMAGE_TAG, "Value": self._cluster_id}, {"Key": "Name", "Value": name}]
        self._image = str(
            self._ec2.create_image(
                InstanceId=self._machine,
                Name=name,
                Description=f"Machines of the Determined cluster {self._cluster_id}",
                TagSpecifications=[{"ResourceType": "image", "Tags": tags}],
            )["ImageId"]
        )
        self._wait(self._is_available, "register the image")
        self._is_registered = True
        self._ec2.create_tags(Resources=self._snapshots(), Tags=tags)
        return self._image

    def _is_available(self) -> bool:
        (image,) = self._ec2.describe_images(ImageIds=[self._image])["Images"]
        if image["State"] not in ("pending", "available"):
            reason = image.get("StateReason", {}).get("Message", image["State"])
            raise CommandError(f"AWS could not make the image: {reason}", "run the command again")
        return bool(image["State"] == "available")

    def discard(self) -> None:
        # By its tag, too: the answer to the launch may be lost.
        machines = {
            *self._machines(_RUN_TAG, self._run),
            *([self._machine] if self._machine else []),
        }
        if self._image and not self._is_registered:
            self._delete_image()
        self._terminate(sorted(machines))

    def _delete_image(self) -> None:
        snapshots = self._snapshots()
        self._ec2.deregister_image(ImageId=self._image)
        for snapshot in snapshots:
            self._ec2.delete_snapshot(SnapshotId=snapshot)

    def _snapshots(self) -> list[str]:
        images = self._ec2.describe_images(ImageIds=[self._image])["Images"]
        disks = [disk for image in images for disk in image.get("BlockDeviceMappings", ())]
        return [str(d["Ebs"]["SnapshotId"]) for d in disks if d.get("Ebs", {}).get("SnapshotId")]

    def _machines(self, tag: str, value: str) -> list[str]:
        filters = [
            {"Name": f"tag:{tag}", "Values": [value]},
            {"Name": "instance-state-name", "Values": _ALIVE},
        ]
        pages = self._ec2.get_paginator("describe_instances").paginate(Filters=filters)
        return [
            str(i["InstanceId"])
            for page in pages
            for r in page["Reservations"]
            for i in r["Instances"]
        ]

    def _terminate(self, machines: Sequence[str]) -> None:
        if machines:
            self._ec2.terminate_instances(InstanceIds=list(machines))

    def _wait(self, is_done: Callable[[], bool], purpose: str) -> None:
        waited_s = 0.0
        while not is_done():
            if waited_s >= _REGISTER_S:
                raise CommandError(f"AWS does not {purpose} for an hour", "run the command again")
            self._pause(LOOK_S)
            waited_s += LOOK_S
