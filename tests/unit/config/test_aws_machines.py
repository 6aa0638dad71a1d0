"""A section for AWS is refused if EC2 would refuse its machines."""

from typing import Any

import pytest
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.config.machine_settings import MOST_USER_DATA
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.core.provision.boot import Boot, user_data

AWS = {"type": "aws", "region": "us-east-1", "instance_type": "g5.xlarge"}


def problems(**settings: Any) -> dict[str, str]:
    pools = [{"pool_name": "gpus", "provider": {**AWS, **settings}}]
    try:
        load_cluster({"resource_pools": pools})
    except InvalidConfig as e:
        return {p.path.rpartition(".")[2]: p.message for p in e.problems}
    return {}


def test_rejects_boot_script_above_the_limit_of_ec2() -> None:
    (message,) = problems(startup_script="#" * 12_000).values()
    assert f"EC2 takes {MOST_USER_DATA}" in message
    assert "fetch the rest from a bucket" in message


def test_error_names_the_largest_part_of_the_boot_script() -> None:
    problems_by_key = problems(
        startup_script="true", pull_images=[f"image-{n:0100}" for n in range(120)]
    )
    assert list(problems_by_key) == ["pull_images"]


def test_an_accepted_boot_script_fits_with_the_names_of_the_cluster() -> None:
    script = "#" * 9_000
    assert problems(startup_script=script) == {}
    booted = Boot(
        "c" * 31, f"https://{'a' * 100}", "p" * 100, "aws", f"https://{'w' * 200}", f"https://{'l' * 200}",
        startup_script=script, has_gpus=True,
    )  # fmt: skip
    assert len(user_data(booted).encode()) <= MOST_USER_DATA


def test_other_clouds_accept_longer_scripts() -> None:
    gcp = {"type": "gcp", "project": "p", "zone": "us-central1-a", "startup_script": "#" * 20_000}
    load_cluster({"resource_pools": [{"pool_name": "gpus", "provider": gcp}]})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"root_volume_throughput": 50}, "from 125 to 1000"),
        ({"root_volume_throughput": 300, "root_volume_type": "io2"}, "is a setting of gp3"),
    ],
)
def test_rejects_throughput_above_the_limit_of_the_volume(
    settings: dict[str, Any], said: str
) -> None:
    assert said in problems(**settings)["root_volume_throughput"]
