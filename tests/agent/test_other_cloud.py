"""A machine of one cloud gets short-lived credentials of the other by its own identity, without a key."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from det_agent import other_cloud
from det_agent.metadata import AwsMetadata, GcpMetadata
from det_agent.other_cloud import credentials_of
from det_agent.settings import BadSettings, Settings, load

from tests.support.cloudbox.internet import Answer, Request, internet
from tests.support.cloudbox.roles import Sts
from tests.support.cloudbox.trust import ACCOUNT, AccountForAws, RoleForGoogle
from tests.support.fake_sts import FakeAws, fake_aws
from tests.support.google_machines import Google
from tests.support.google_metadata import FakeMetadata, metadata_server

INFRA = Path(__file__).resolve().parents[2] / "infra/terraform/examples"


@pytest.fixture
def sts() -> Sts:
    return Sts()


@pytest.fixture
def role(sts: Sts) -> RoleForGoogle:
    return RoleForGoogle(Google(), sts)


@pytest.fixture
def account(sts: Sts) -> AccountForAws:
    return AccountForAws(sts)


@pytest.fixture(autouse=True)
def hosts(
    role: RoleForGoogle, account: AccountForAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Have the hosts of both clouds answer."""

    def route(request: Request) -> Answer:
        answer = account.answer(request) or role.answer(request)
        return answer or Answer(502, f"nobody is {request.host}".encode())

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with internet(tmp_path, route) as address:
        for name, value in address.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.fixture
def google_machine(role: RoleForGoogle, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMetadata]:
    with metadata_server() as fake:
        fake.token_for = lambda audience: role.google.token(aud=audience)
        monkeypatch.setenv("GCE_METADATA_HOST", fake.host)
        yield fake


@pytest.fixture
def aws_machine(sts: Sts, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    with fake_aws() as fake:
        machine = fake.machine
        assumed = sts.assume(ACCOUNT, "agent", machine.instance_id)
        machine.access_key, machine.secret_key = assumed.access_key, assumed.secret_key
        machine.session = assumed.token
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", fake.url)
        yield fake


def settings(**values: str) -> Settings:
    return load({"master_url": "http://cluster:8080", "cluster_id": "ours", **values}, {})


@pytest.mark.usefixtures("google_machine")
def test_google_machine_gets_the_aws_role_that_trusts_its_account(
    role: RoleForGoogle, sts: Sts
) -> None:
    credentials = credentials_of(settings(identity="gcp", aws_role_arn=role.arn))
    assert set(credentials) == {"gcp", "aws"}
    keys = credentials["aws"].current()
    assert keys["AccessKeyId"] in sts.known
    assert keys["SecretAccessKey"] == sts.known[keys["AccessKeyId"]].secret_key
    assert keys["Expiration"].endswith("Z")


def test_aws_role_that_trusts_another_account_is_an_error(
    role: RoleForGoogle, google_machine: FakeMetadata
) -> None:
    google_machine.token_for = lambda audience: role.google.token(aud=audience, sub="2")
    with pytest.raises(OSError, match=r"does not give this machine the role arn:aws:iam.*Not auth"):
        other_cloud.role_of_aws(GcpMetadata(), role.arn)


def test_join_token_cannot_assume_the_aws_role(
    role: RoleForGoogle, google_machine: FakeMetadata
) -> None:
    """The cluster receives join tokens and must not be able to act as the machine with them."""
    google_machine.token_for = lambda _: role.google.token(aud="determined-join/nonce/1")
    with pytest.raises(OSError, match="Not authorized"):
        other_cloud.role_of_aws(GcpMetadata(), role.arn)


@pytest.mark.usefixtures("aws_machine")
def test_aws_machine_gets_the_google_account_that_trusts_its_role(
    account: AccountForAws,
) -> None:
    text = json.dumps(account.config)
    credentials = credentials_of(settings(identity="aws", google_credentials=text))
    assert set(credentials) == {"aws", "gcp"}
    token = credentials["gcp"].current()
    assert token["access_token"] in account.tokens
    assert (token["email"], token["project"]) == (account.email, "acme")
    assert 3000 < token["expires_in"] <= 3600


@pytest.mark.usefixtures("aws_machine")
def test_google_account_that_trusts_another_role_is_an_error(
    account: AccountForAws,
) -> None:
    account.role = "another"
    with pytest.raises(OSError, match=r"no account \(400 .*attribute condition"):
        other_cloud.account_of_google(AwsMetadata(), account.config)


@pytest.mark.usefixtures("aws_machine")
@pytest.mark.parametrize("headers", [{}, {"Content-Length": "100"}], ids=["no object", "cut off"])
def test_invalid_response_of_google_is_an_error(
    account: AccountForAws, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "answer", lambda _: Answer(200, b"[]", headers))
    with pytest.raises(OSError, match="not what it promises"):
        other_cloud.account_of_google(AwsMetadata(), account.config)


def test_google_rejects_a_machine_with_a_wrong_secret(
    account: AccountForAws, aws_machine: FakeAws
) -> None:
    aws_machine.machine.secret_key = "guessed"
    with pytest.raises(OSError, match="signature"):
        other_cloud.account_of_google(AwsMetadata(), account.config)


def test_google_library_gets_a_token_of_the_same_account(
    account: AccountForAws, aws_machine: FakeAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the agent sends the same requests as Google's library, as far as this account checks them."""
    from google.auth import aws
    from google.auth.transport.requests import Request as Transport

    machine = aws_machine.machine
    for name, value in {
        "AWS_ACCESS_KEY_ID": machine.access_key, "AWS_SECRET_ACCESS_KEY": machine.secret_key,
        "AWS_SESSION_TOKEN": machine.session, "AWS_REGION": machine.region,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    credentials = aws.Credentials.from_info(account.config, scopes=[other_cloud.SCOPE])
    credentials.refresh(Transport())
    assert credentials.token in account.tokens


def test_credentials_of_the_other_cloud_require_configuration(
    role: RoleForGoogle,
) -> None:
    assert set(credentials_of(settings(identity="gcp"))) == {"gcp"}
    assert set(credentials_of(settings(identity="aws", aws_role_arn=role.arn))) == {"aws"}
    none = settings(identity="gcp", aws_role_arn=role.arn, container_credentials="none")
    assert credentials_of(none) == {}
    assert credentials_of(settings(identity="token", aws_role_arn=role.arn)) == {}
    with pytest.raises(BadSettings, match="google_credentials"):
        settings(identity="aws", google_credentials="[]")


def test_terraform_examples_match_the_agents_tokens(account: AccountForAws) -> None:
    for_google = (INFRA / "aws-bucket-for-gcp/main.tf").read_text()
    assert f'"{other_cloud.AUDIENCE}"' in for_google
    for_aws = (INFRA / "gcp-bucket-for-aws/main.tf").read_text()
    missing_keys: list[Any] = [key for key in account.config if f"{key} " not in for_aws]
    assert missing_keys == []
