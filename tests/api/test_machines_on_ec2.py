"""A machine of EC2 from the queue's demand to its end: provisioner, agent's proof and verifier as they are shipped."""

import uuid
from pathlib import Path

import boto3
import pytest
from det_agent.proofs import aws_proof
from det_controlplane.core.agent_protocol import join_nonce
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.clouds import clouds_of, identities_of
from det_controlplane.services.machines import calling
from det_provisioner_aws.identity import AwsIdentityVerifier

from tests.support.api import create
from tests.support.fake_sts import fake_aws
from tests.support.moto import moto_server
from tests.support.rented import MachineAgent, RentedCluster, rented_cluster

CONFIGURATION = """
checkpoint_storage: {{type: s3, bucket: checkpoints}}
resource_pools:
  - pool_name: default
    provider:
      type: aws
      region: us-west-2
      instance_type: g5.xlarge
      spot: true
      max_idle_agent_period: 60s
      image_id: {image}
      iam_instance_profile_arn: {profile}
"""


def join(cluster: RentedCluster, agent_id: str) -> MachineAgent:
    """Join as the agent of the machine of this metadata service."""
    incarnation, key = str(uuid.uuid4()), "key"
    proof = aws_proof(join_nonce(cluster.api.ctx.cluster_id, agent_id, key, incarnation))
    slots = [{"id": 0, "type": "cuda", "brand": "A10G", "uuid": "GPU-0"}]
    body = {
        "agent_id": agent_id, "agent_key": key, "incarnation": incarnation, "runtime": "docker",
        "slots": slots, "pool": "default", "proof": proof,
    }  # fmt: skip
    token = cluster.api.anonymous().post("/agents/v1/join", body)["agent_token"]
    return MachineAgent(cluster.api.with_token(token), agent_id, incarnation)


def test_machine_launches_joins_works_and_is_terminated(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        rented_cluster(database, tmp_path) as cluster,
        moto_server() as moto_url,
        fake_aws() as aws,
    ):
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", aws.url)
        monkeypatch.setenv("AWS_ENDPOINT_URL", moto_url)
        ec2 = boto3.client("ec2")
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        profile = boto3.client("iam").create_instance_profile(InstanceProfileName="agent")[
            "InstanceProfile"
        ]["Arn"]
        config = load_cluster(CONFIGURATION.format(image=image, profile=profile))
        cluster.api.ctx.config = config
        clouds = clouds_of(config)
        (verifier,) = identities_of(config).values()
        assert isinstance(verifier, AwsIdentityVerifier)
        cluster.api.ctx.verifiers.machines = {verifier.kind: verifier}
        monkeypatch.setattr(verifier, "_url_of", lambda _: aws.url + "/")

        def settle() -> None:
            for _ in range(3):
                cluster.api.tick()
                calling.run(cluster.api.ctx, clouds)

        def state(instance_id: str) -> str:
            description = ec2.describe_instances(InstanceIds=[instance_id])
            return str(description["Reservations"][0]["Instances"][0]["State"]["Name"])

        create(cluster.api.signed_in("determined"), activate=True)
        settle()
        (instance,) = cluster.instances()
        aws.machine.instance_id = instance["cloudId"]
        agent = join(cluster, instance["cloudId"])
        settle()
        agent.work()
        assert [i["state"] for i in cluster.instances()] == ["REGISTERED"]
        assert len(agent.running) == 1
        agent.finish()
        for _ in range(8):
            if state(instance["cloudId"]) == "terminated":
                break
            agent.poll()
            cluster.pass_time(seconds=20)
            settle()
        assert state(instance["cloudId"]) == "terminated"
        assert [i["state"] for i in cluster.instances(all="true")] == ["GONE"]
