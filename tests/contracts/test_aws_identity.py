"""A machine on EC2 proves its identity to the control plane with STS."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import det_provisioner_aws
import pytest
from det_agent.proofs import aws_proof
from det_controlplane.core.agent_protocol import sts_host
from det_controlplane.ports.compute import Unreachable
from det_controlplane.ports.identity import IdentityVerifier, MachineIdentity, NotProven, Proof
from det_provisioner_aws.identity import KIND, AwsIdentityVerifier, Trusted, sts_url, trusted_by

from tests.support.fake_sts import FakeAws, fake_aws

ACCOUNT, REGION, NONCE = "123456789012", "us-west-2", "0f" * 32
TRUSTED = Trusted(lambda: [ACCOUNT], [REGION])


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    with fake_aws() as fake:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", fake.url)
        yield fake


def verify(
    aws: FakeAws, fields: Mapping[str, Any], nonce: str = NONCE, trusted: Trusted = TRUSTED
) -> MachineIdentity:
    verifier: IdentityVerifier = AwsIdentityVerifier(trusted, lambda _: aws.url + "/")
    return verifier.verify(Proof(KIND, nonce, fields))


def test_machine_is_recognized(aws: FakeAws) -> None:
    proof = aws_proof(NONCE)
    assert proof["kind"] == KIND
    assert verify(aws, proof) == MachineIdentity("aws", ACCOUNT, REGION, "i-0123456789abcdef0", "")


def test_proof_contains_no_secret(aws: FakeAws) -> None:
    aws.machine.secret_key = "Gq8Secret"
    assert "Gq8Secret" not in json.dumps(dict(aws_proof(NONCE)))


def test_proof_is_valid_only_for_its_nonce(aws: FakeAws) -> None:
    with pytest.raises(NotProven, match="SignatureDoesNotMatch"):
        verify(aws, aws_proof(NONCE), nonce="1e" * 32)


def test_proof_is_sent_to_the_host_that_it_was_signed_for(aws: FakeAws) -> None:
    verify(aws, aws_proof(NONCE))
    (request,) = aws.seen
    assert request["Host"] == "sts.us-west-2.api.aws"
    assert sts_url(REGION) == "https://sts.us-west-2.api.aws/"
    assert sts_host("cn-north-1") == "sts.cn-north-1.api.amazonwebservices.com.cn"


@pytest.mark.parametrize("region", ["eu-west-1", "evil.example/x", "us-west-2.evil.example", ""])
def test_only_hosts_of_trusted_regions_are_called(aws: FakeAws, region: str) -> None:
    proof = dict(aws_proof(NONCE))
    proof["authorization"] = proof["authorization"].replace(REGION, region)
    with pytest.raises(NotProven):
        verify(aws, {**proof, "region": region})
    assert aws.seen == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("date", "20260101T000000Z\r\nX-Evil: 1"),
        ("session_token", "a b"),
        ("session_token", ""),
        ("authorization", "AWS4-HMAC-SHA256 Credential=x"),
        ("authorization", "Bearer token"),
        ("document", None),
        ("date", 7),
    ],
)
def test_malformed_proof_is_never_sent(aws: FakeAws, name: str, value: Any) -> None:
    proof = {**aws_proof(NONCE), name: value}
    with pytest.raises(NotProven):
        verify(aws, proof)
    assert aws.seen == []
    with pytest.raises(NotProven):
        AwsIdentityVerifier(TRUSTED).claimed(Proof(KIND, NONCE, proof))


@pytest.mark.parametrize("document", ["", "[]", "{}", '{"instanceId": 7}', "[" * 10_000])
def test_rejects_document_without_a_machine(aws: FakeAws, document: str) -> None:
    proof = {**aws_proof(NONCE), "document": document}
    with pytest.raises(NotProven, match="names no machine"):
        AwsIdentityVerifier(TRUSTED).claimed(Proof(KIND, NONCE, proof))


@pytest.mark.parametrize("header", ["host", "x-amz-date", "x-determined-nonce"])
def test_proof_with_an_unsigned_header_is_never_sent(aws: FakeAws, header: str) -> None:
    proof = dict(aws_proof(NONCE))
    proof["authorization"] = proof["authorization"].replace(f"{header};", "").replace(f";{header}", "")  # fmt: skip
    with pytest.raises(NotProven, match=header):
        verify(aws, proof)
    assert aws.seen == []


def test_other_accounts_are_not_trusted(aws: FakeAws) -> None:
    aws.machine.account = "999999999999"
    with pytest.raises(NotProven, match="999999999999"):
        verify(aws, aws_proof(NONCE))


def test_only_named_roles_are_trusted(aws: FakeAws) -> None:
    agent = Trusted(lambda: [ACCOUNT], [REGION], ["agent"])
    assert verify(aws, aws_proof(NONCE), trusted=agent).account == ACCOUNT
    aws.machine.role = "administrator"
    with pytest.raises(NotProven, match="administrator"):
        verify(aws, aws_proof(NONCE), trusted=agent)


@pytest.mark.parametrize("session_name", ["alice", "i-zz", "i-0123456789abcdef0x"])
def test_person_with_the_role_is_not_a_machine(aws: FakeAws, session_name: str) -> None:
    aws.machine.session_name = session_name
    with pytest.raises(NotProven, match="not the role of a machine"):
        verify(aws, aws_proof(NONCE))


@pytest.mark.parametrize(
    ("name", "value"), [("instanceId", "i-0fff"), ("accountId", "1"), ("region", "eu-west-1")]
)
def test_rejects_document_of_another_machine(aws: FakeAws, name: str, value: str) -> None:
    proof = aws_proof(NONCE)
    document = {**json.loads(proof["document"]), name: value}
    with pytest.raises(NotProven, match=name):
        verify(aws, {**proof, "document": json.dumps(document)})


def test_differently_encoded_proof_counts_as_the_same(aws: FakeAws) -> None:
    proof = aws_proof(NONCE)
    copy = {**proof, "document": proof["document"] + "\n", "note": "nobody signed it"}
    assert verify(aws, copy).signed == verify(aws, proof).signed == proof["authorization"]


def test_failing_sts_is_unreachable(aws: FakeAws) -> None:
    proof = aws_proof(NONCE)
    aws.status = 503
    with pytest.raises(Unreachable):
        verify(aws, proof)
    aws.status, aws.throttles = 200, True
    with pytest.raises(Unreachable, match="Throttling"):
        verify(aws, proof)
    aws.url = "http://127.0.0.1:9"
    with pytest.raises(Unreachable, match=r"sts\.us-west-2\.api\.aws"):
        verify(aws, proof)


def test_redirects_are_not_followed(aws: FakeAws) -> None:
    proof = aws_proof(NONCE)
    aws.status = 307
    with pytest.raises(NotProven):
        verify(aws, proof)
    assert len(aws.seen) == 1


def test_machine_without_a_role_reports_it(aws: FakeAws) -> None:
    aws.machine.has_role = False
    with pytest.raises(OSError, match="iam_instance_profile_arn"):
        aws_proof(NONCE)


def test_role_without_credentials_is_reported(aws: FakeAws) -> None:
    aws.machine.has_keys = False
    with pytest.raises(OSError, match="AssumeRoleUnauthorizedAccess"):
        aws_proof(NONCE)


def test_other_metadata_service_gives_no_proof(aws: FakeAws) -> None:
    aws.machine.document = "<html>"
    with pytest.raises(OSError, match="not EC2's"):
        aws_proof(NONCE)


PROFILE = "arn:aws:iam::{}:instance-profile/agent"


def test_trusts_accounts_and_regions_of_the_pools() -> None:
    sections: list[Mapping[str, Any]] = [
        {"region": "us-west-2", "iam_instance_profile_arn": PROFILE.format("1" * 12)},
        {"regions": ["eu-west-1"], "iam_instance_profile_arn": PROFILE.format("2" * 12)},
        {"zones": ["us-east-1f"], "iam_instance_profile_arn": PROFILE.format("1" * 12)},
    ]
    trusted = trusted_by(sections)
    assert trusted.regions == {"us-west-2", "eu-west-1", "us-east-1"}
    assert trusted.accounts() == {"1" * 12, "2" * 12}


def test_profile_without_arn_is_in_our_own_account(
    moto_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_url)
    trusted = trusted_by(
        [
            {"region": "us-west-2", "iam_instance_profile_arn": "agent"},
            {"region": "us-west-2", "iam_instance_profile_arn": PROFILE.format("2" * 12)},
        ]
    )
    assert trusted.accounts() == {ACCOUNT, "2" * 12}


def test_unknown_account_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    trusted = trusted_by([{"region": "us-west-2"}])
    with pytest.raises(Unreachable, match="account"):
        trusted.accounts()


def test_package_provides_compute_and_verifiers(
    aws: FakeAws, moto_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = [{"type": "aws", "region": REGION}]
    for _ in range(2):  # a submodule with the same name would replace the function
        assert det_provisioner_aws.compute(sections).provider == "aws"
    (verifier,) = det_provisioner_aws.identity_verifiers(sections)
    assert verifier.kind == aws_proof(NONCE)["kind"]
