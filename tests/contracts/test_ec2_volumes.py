"""Machines with GPUs have faster root volumes, because their images are large."""

from typing import Any

import pytest
from det_provisioner_aws.parameters import launch_parameters
from det_provisioner_aws.places import Image
from det_provisioner_aws.settings import read_settings

IMAGE = Image("ami-1", "/dev/sda1", 8)


def volume(section: dict[str, Any], *, has_gpus: bool) -> dict[str, Any]:
    common = launch_parameters(read_settings(section), IMAGE, has_gpus=has_gpus)
    ebs: dict[str, Any] = common["BlockDeviceMappings"][0]["Ebs"]
    return ebs


@pytest.mark.parametrize(
    ("section", "has_gpus", "throughput", "iops"),
    [
        ({}, True, 500, None),
        ({}, False, None, None),
        ({"root_volume_throughput": 300}, False, 300, None),
        ({"root_volume_throughput": 125}, True, None, None),
        ({"root_volume_throughput": 1000}, True, 1000, 4000),
        ({"root_volume_type": "io2"}, True, None, None),
    ],
)
def test_machines_with_gpus_have_faster_volumes(
    section: dict[str, Any], has_gpus: bool, throughput: int | None, iops: int | None
) -> None:
    ebs = volume(section, has_gpus=has_gpus)
    assert (ebs.get("Throughput"), ebs.get("Iops")) == (throughput, iops)
