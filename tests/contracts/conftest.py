"""Fixtures with AWS, simulated by moto."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from det_controlplane.ports.compute import Place
from det_provisioner_aws.ec2 import Ec2Compute
from moto.ec2 import ec2_backends

from tests.support.fake_ec2 import ACCOUNT, Wire
from tests.support.moto import moto_server
from tests.support.on_ec2 import REGION, OnEc2


@pytest.fixture(scope="module")
def moto_url() -> Iterator[str]:
    with moto_server() as url:
        yield url


@pytest.fixture(scope="module")
def client(moto_url: str) -> Any:
    return boto3.client("ec2", region_name=REGION, endpoint_url=moto_url)


@pytest.fixture(scope="module")
def compute(moto_url: str) -> Ec2Compute:
    """Return a shared object, because creating boto3 clients takes most of a second."""
    return Ec2Compute(moto_url, page_size=5)


@pytest.fixture(scope="module")
def image(client: Any) -> str:
    """Return an image of moto. Loading moto's image list takes seconds once."""
    return str(client.describe_images(Owners=["amazon"])["Images"][0]["ImageId"])


@pytest.fixture
def ec2(compute: Ec2Compute, client: Any, image: str, monkeypatch: pytest.MonkeyPatch) -> OnEc2:
    ec2_backends[ACCOUNT][REGION].reservations.clear()
    wire = Wire()
    wire.install(monkeypatch)
    return OnEc2(compute, wire, client, Place(REGION, {"image_id": image}))
