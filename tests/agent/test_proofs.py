"""Check the proof that an agent makes by its settings."""

import re
import shlex
from pathlib import Path

import pytest
from det_agent.main import _notices
from det_agent.proofs import proof_of
from det_agent.settings import BadSettings, Settings, load
from det_controlplane.core.agent_protocol import JoinRequest, join_nonce
from det_controlplane.core.provision.boot import Boot, user_data
from det_controlplane.ports.identity import NotProven, Proof
from det_provisioner_aws.identity import AwsIdentityVerifier, Trusted

from tests.support.fake_sts import fake_aws

JOINING = JoinRequest("gpu-1", "key", "process-1")


def settings(**values: str) -> Settings:
    return load({"master_url": "http://cluster:8080", **values}, {})


def test_token_file_is_read_for_each_join(tmp_path: Path) -> None:
    file = tmp_path / "token"
    proof = proof_of(settings(token_file=str(file)), JOINING)
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        assert proof() == {"kind": "bootstrap_token", "token": token}


def test_identity_proof_is_valid_for_one_cluster_and_join(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with fake_aws() as aws:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", aws.url)
        proof = proof_of(settings(identity="aws", cluster_id="ours"), JOINING)()
        trusted = Trusted(lambda: ["123456789012"], ["us-west-2"])
        verifier = AwsIdentityVerifier(trusted, lambda _: aws.url + "/")
        right = join_nonce("ours", "gpu-1", "key", "process-1")
        assert verifier.verify(Proof("aws_sts", right, proof)).cloud_id == aws.machine.instance_id
        wrong = join_nonce("theirs", "gpu-1", "key", "process-1")
        with pytest.raises(NotProven):
            verifier.verify(Proof("aws_sts", wrong, proof))


def test_identity_requires_a_cluster_id_and_a_known_cloud() -> None:
    with pytest.raises(BadSettings, match="cluster_id"):
        settings(identity="gcp")
    with pytest.raises(BadSettings, match="identity"):
        settings(identity="azure", cluster_id="ours")


@pytest.mark.parametrize("provider", ["aws", "gcp"])
def test_agent_reads_the_configuration_of_rented_machines(tmp_path: Path, provider: str) -> None:
    credentials = {"type": "external_account", "audience": "it's"}
    boot = Boot(
        "ours", "https://cluster.example", "gpus", provider,
        aws_role_arn="arn:aws:iam::1:role/x", google_credentials=credentials,
    )  # fmt: skip
    script = user_data(boot)
    pattern = r"^printf '%s\\n' ('.*?') > /etc/determined/agent.yaml$"
    (agent_config,) = re.findall(pattern, script, re.M | re.S)
    file = tmp_path / "agent.yaml"
    file.write_text(shlex.split(agent_config)[0])
    options = load({"config_file": str(file)}, {})
    assert (options.identity, options.cluster_id, options.resource_pool) == (
        provider,
        "ours",
        "gpus",
    )
    assert options.aws_role_arn == "arn:aws:iam::1:role/x"
    assert options.google_credentials == credentials
    off = ("systemctl", "poweroff")
    assert (options.shutdown_after_silence, options.on_connection_lost) == (
        boot.silence_limit_s,
        off,
    )
    assert len(_notices(options)) == 1
    assert _notices(settings()) == ()


def test_a_command_proves_a_machine_of_another_cloud(tmp_path: Path) -> None:
    program = tmp_path / "prove"
    program.write_text(
        '#!/bin/sh\necho "{\\"kind\\": \\"garage\\", \\"nonce\\": \\"$DET_JOIN_NONCE\\"}"\n'
    )
    program.chmod(0o755)
    proof = proof_of(
        settings(identity="command", identity_command=str(program), cluster_id="ours"), JOINING
    )()
    nonce = join_nonce("ours", JOINING.agent_id, JOINING.agent_key, JOINING.incarnation)
    assert proof == {"kind": "garage", "nonce": nonce}


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo no metadata service >&2; exit 3", "failed with status 3: no metadata service"),
        ("echo proof", "prints no JSON object with a kind"),
        ("echo '{}'", "prints no JSON object with a kind"),
    ],
)
def test_a_command_without_a_proof_is_reported(tmp_path: Path, script: str, message: str) -> None:
    program = tmp_path / "prove"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    prove = proof_of(
        settings(identity="command", identity_command=str(program), cluster_id="ours"), JOINING
    )
    with pytest.raises(OSError, match=message):
        prove()


def test_identity_by_command_needs_the_command() -> None:
    with pytest.raises(BadSettings, match="identity_command is missing"):
        settings(identity="command", cluster_id="ours")
