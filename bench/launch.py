"""Measure the time from a submission to the call that rents a machine for it: `python -m bench.launch`.

The cluster is an API server with one pool on EC2, simulated by moto. The time runs from the request that creates an
experiment until moto has the instance.
"""

import logging
import os
import tempfile
import time
from argparse import Namespace
from pathlib import Path

import boto3
import yaml
from det_controlplane.entry.local.commands import main as deploy_local
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2 import ec2_backends

from bench.api import Cluster, create, figure
from tests.support.moto import moto_server

REGION, ROUNDS, FLOOR_S = "us-west-2", 5, 2.0
LOOK_S, LONGEST_S = 0.002, 60.0


class RentingCluster(Cluster):
    def do(self, action: str) -> None:
        flags = {
            "agents": 0, "master_port": self.port, "initial_user_password": "",
            "config": str(self.files.folder.parent / "cluster.yaml"),
        }  # fmt: skip
        code = deploy_local(action, Namespace(data_dir=str(self.files.folder), **flags))
        assert code == 0, f"{action} ended with {code}"


def pool(aws_url: str) -> dict[str, object]:
    """Create the resources that a section names, and return a pool that rents machines there."""
    ec2 = boto3.client("ec2", REGION, endpoint_url=aws_url)
    iam = boto3.client("iam", REGION, endpoint_url=aws_url)
    image = ec2.describe_images()["Images"][0]["ImageId"]
    profile = iam.create_instance_profile(InstanceProfileName="agent")["InstanceProfile"]["Arn"]
    provider = {
        "type": "aws", "region": REGION, "instance_type": "g4dn.xlarge", "image_id": image,
        "iam_instance_profile_arn": profile, "max_instances": 2 * ROUNDS, "instance_price": 0.5,
        "master_url": "https://cluster.example",
    }  # fmt: skip
    return {"pool_name": "default", "provider": provider}


def launched() -> int:
    return len(list(ec2_backends[DEFAULT_ACCOUNT_ID][REGION].all_instances()))


def launch_s(cluster: Cluster) -> float:
    before = launched()
    start = time.perf_counter()
    create(cluster, activate=True)
    while launched() == before:
        took_s = time.perf_counter() - start
        assert took_s < LONGEST_S, "no machine was rented"
        time.sleep(LOOK_S)
    return time.perf_counter() - start


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with moto_server() as aws_url, tempfile.TemporaryDirectory() as folder:
        os.environ |= {"AWS_ENDPOINT_URL": aws_url, "DET_AWS_PRICE_LIST": "false"}
        config = {"resource_pools": [pool(aws_url)]}
        (Path(folder) / "cluster.yaml").write_text(yaml.safe_dump(config))
        cluster = RentingCluster(Path(folder) / "cluster")
        cluster.do("cluster-up")
        try:
            cluster.sign_in()
            first, *others = [launch_s(cluster) for _ in range(ROUNDS)]
        finally:
            cluster.do("cluster-down")
    figure("submit_to_first_launch_call", first, "s", FLOOR_S)
    figure("submit_to_launch_call", sorted(others)[len(others) // 2], "s", FLOOR_S)


if __name__ == "__main__":
    main()
