"""Fields of Determined's API that describe a pool's rented machines."""

from typing import Any

from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.config.pools import Pool
from det_controlplane.services.agents.pool_details import details, of_machines, slots_per_agent

AWS = {
    "type": "aws", "region": "us-east-1", "instance_type": "g5.12xlarge", "spot": True,
    "image_id": "ami-1", "ssh_key_name": "mine", "iam_instance_profile_arn": "arn:agents",
    "network_interface": {"public_ip": False, "subnet_id": "subnet-1", "security_group_id": "sg-1"},
    "custom_tags": [{"key": "team", "value": "vision"}], "startup_script": "export TOKEN=secret",
}  # fmt: skip
GCP = {
    "type": "gcp", "zone": "us-central1-a", "project": "acme",
    "instance_type": {"machine_type": "n1-standard-8", "gpu_type": "nvidia-tesla-t4", "gpu_num": 2},
    "service_account": {"email": "agents@acme", "scopes": ["cloud-platform"]},
}  # fmt: skip


def pool(**keys: Any) -> Pool:
    return load_cluster({"resource_pools": [{"pool_name": "gpus", **keys}]}).resource_pools[0]


def test_details_of_an_ec2_pool_describe_its_machines() -> None:
    aws_pool = pool(provider=AWS)
    assert of_machines(aws_pool) == {
        "location": "us-east-1", "instanceType": "g5.12xlarge", "imageId": "ami-1",
        "accelerator": "NVIDIA A10G",
    }  # fmt: skip
    assert slots_per_agent(aws_pool) == 4
    aws = details(aws_pool)["aws"]
    assert details(aws_pool)["gcp"] is None
    assert (aws["spotEnabled"], aws["rootVolumeSize"], aws["publicIp"]) == (True, 200, False)
    assert (aws["subnetId"], aws["securityGroupId"]) == ("subnet-1", "sg-1")
    assert aws["customTags"] == [{"key": "team", "value": "vision"}]
    assert "secret" not in str((aws, of_machines(aws_pool)))


def test_details_of_a_compute_engine_pool_describe_its_machines() -> None:
    gcp_pool = pool(provider=GCP)
    assert of_machines(gcp_pool)["location"] == "us-central1-a"
    assert of_machines(gcp_pool)["instanceType"] == "n1-standard-8"
    assert slots_per_agent(gcp_pool) == 2
    gcp = details(gcp_pool)["gcp"]
    assert (gcp["project"], gcp["zone"], gcp["preemptible"]) == ("acme", "us-central1-a", False)
    assert (gcp["gpuType"], gcp["gpuNum"]) == ("nvidia-tesla-t4", 2)
    assert gcp["serviceAccountEmail"] == "agents@acme"


def test_details_of_a_mixed_pool_describe_both_clouds() -> None:
    mixed_pool = pool(offers=[GCP, {**AWS, "image_id": None}])
    assert of_machines(mixed_pool)["location"] == "us-central1-a, us-east-1"
    assert of_machines(mixed_pool)["instanceType"] == "n1-standard-8, g5.12xlarge"
    assert all(details(mixed_pool).values())


def test_pool_without_rented_machines_is_on_premises() -> None:
    assert of_machines(pool()) == {"location": "on-prem"}
    assert details(pool()) == {"aws": None, "gcp": None}
    assert slots_per_agent(pool()) == 0
