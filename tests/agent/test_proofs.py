"""What an agent proves itself with, by its settings."""

from pathlib import Path

import pytest
from det_agent.proofs import proof_of
from det_agent.settings import BadSettings, Settings, load
from det_controlplane.core.agent_protocol import JoinRequest, join_nonce
from det_controlplane.ports.identity import NotProven, Proof
from det_provisioner_aws.identity import AwsIdentityVerifier, Trusted

from tests.support.fake_sts import fake_aws

JOINING = JoinRequest("gpu-1", "key", "process-1")


def settings(**given: str) -> Settings:
    return load({"master_url": "http://cluster:8080", **given}, {})


def test_a_token_is_read_anew_for_each_join(tmp_path: Path) -> None:
    file = tmp_path / "token"
    proof = proof_of(settings(token_file=str(file)), JOINING)
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        assert proof() == {"kind": "bootstrap_token", "token": token}


def test_a_machine_proves_itself_to_one_cluster_and_for_one_join(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with fake_aws() as aws:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", aws.url)
        proof = proof_of(settings(prove_by="aws", cluster_id="ours"), JOINING)()
        trusted = Trusted(["123456789012"], ["us-west-2"])
        verifier = AwsIdentityVerifier(trusted, lambda _: aws.url + "/")
        right = join_nonce("ours", "gpu-1", "key", "process-1")
        assert verifier.verify(Proof("aws_sts", right, proof)).cloud_id == aws.machine.instance_id
        wrong = join_nonce("theirs", "gpu-1", "key", "process-1")
        with pytest.raises(NotProven):
            verifier.verify(Proof("aws_sts", wrong, proof))


def test_a_machine_needs_a_cluster_to_prove_itself_to() -> None:
    with pytest.raises(BadSettings, match="cluster_id"):
        settings(prove_by="gce")
    with pytest.raises(BadSettings, match="prove_by"):
        settings(prove_by="azure", cluster_id="ours")
