"""Upgrade a cluster on AWS: what requests reach, and when; Terraform and AWS are stand-ins."""

import json
from typing import Any

import pytest
from moto.awslambda.exceptions import LambdaClientError
from moto.awslambda.models import LambdaFunction
from moto.awslambda.responses import LambdaResponse

from tests.cli.conftest import Det
from tests.support.aws_account import MADE, Account
from tests.support.fake_api import Raw
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_terraform import FakeTerraform


class Upgrade:
    """A cluster whose functions have a version that answers, and a newer one."""

    def __init__(
        self, account: Account, terraform: FakeTerraform, url: str, newest: int = 2
    ) -> None:
        account.has_cluster()
        self._lambda = account.client("lambda")
        account.make_functions("migrate")
        role = account.client("iam").get_role(RoleName="r")["Role"]["Arn"]
        names = {name: f"det-box-{name}" for name in ("api", "tick", "provision")}
        for name in names.values():
            self._lambda.create_function(
                FunctionName=name, Runtime="python3.11", Role=role, Handler="app.app", Publish=True,
                Code={"ZipFile": b"PK\x05\x06" + bytes(18)},
            )  # fmt: skip
            self._lambda.create_alias(FunctionName=name, Name="live", FunctionVersion="1")
            self._lambda.update_function_code(
                FunctionName=name, ZipFile=b"PK\x05\x06" + bytes(17) + b"\x01", Publish=True
            )
        outputs = {
            "url": url, "functions": {**names, "migrate": "det-box-migrate"},
            "versions": dict.fromkeys(names, str(newest)), "initial_user_password": "Secret123",
        }  # fmt: skip
        told = {name: {"value": value} for name, value in outputs.items()}
        made = {"out": json.dumps(MADE)}
        terraform.answers(output={"out": json.dumps(told)}, state_pull=made)

    def live(self) -> set[str]:
        return {
            self._lambda.get_alias(FunctionName=f"det-box-{name}", Name="live")["FunctionVersion"]
            for name in ("api", "tick", "provision")
        }

    def publish(self, count: int) -> None:
        """Publish versions that never answered, as deployments that failed leave them."""
        for name in ("api", "tick", "provision"):
            for number in range(count):
                self._lambda.update_function_code(
                    FunctionName=f"det-box-{name}", ZipFile=b"PK\x05\x06" + bytes(17) + bytes([number]),
                    Publish=True,
                )  # fmt: skip

    def published(self, name: str) -> list[str]:
        listed = self._lambda.list_versions_by_function(FunctionName=f"det-box-{name}")["Versions"]
        return [v["Version"] for v in listed if v["Version"] != "$LATEST"]


def test_an_upgrade_reaches_requests_once_the_database_is_migrated(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    upgrade = Upgrade(account, terraform, cluster.url)
    seen: list[set[str]] = []

    def migrate(*_: Any) -> bytes:
        seen.append(upgrade.live())
        return b"[]"

    monkeypatch.setattr(LambdaFunction, "invoke", migrate)
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert ran.code == 0, ran.err
    assert (seen, upgrade.live()) == ([{"1"}], {"2"})


def test_a_function_that_lambda_has_put_away_is_asked_until_it_is_ready(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    upgrade = Upgrade(account, terraform, cluster.url)
    refusals = ["CodeArtifactUserPendingException", "ResourceConflictException"]

    def invoke(*_: Any) -> bytes:
        if refusals:
            raise LambdaClientError(refusals.pop(), "Lambda is initializing your function")
        return b"[]"

    monkeypatch.setattr(LambdaFunction, "invoke", invoke)
    monkeypatch.setattr("det_cli.deployment.aws_migration.time.sleep", lambda s: None)
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert ran.code == 0, ran.err
    assert upgrade.live() == {"2"}


def test_a_migration_that_fails_leaves_the_version_before_at_work(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    upgrade = Upgrade(account, terraform, cluster.url)

    def fail(function: Any, body: Any, headers: Any, answer: dict[str, str]) -> bytes:
        answer["x-amz-function-error"] = "Unhandled"
        return b'{"errorMessage": "no room on disk"}'

    monkeypatch.setattr(LambdaFunction, "invoke", fail)
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert (ran.code, "the migration of the database failed: no room on disk" in ran.err) == (
        1,
        True,
    )
    assert upgrade.live() == {"1"}


def test_a_new_version_that_does_not_answer_makes_room_for_the_one_before(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    upgrade = Upgrade(account, terraform, cluster.url)
    monkeypatch.setattr(LambdaFunction, "invoke", lambda *_: b"[]")
    monkeypatch.setattr("det_cli.deployment.health._LIMIT_S", -1.0)
    cluster.on("GET", "/health", Raw(b"{}", status=500))
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert ran.code == 1
    assert f"the new version does not answer at {cluster.url}: the previous one is back" in ran.err
    assert "/aws/lambda/det-box-api says why" in ran.err
    assert upgrade.live() == {"1"}


def test_an_upgrade_leaves_the_newest_versions_and_the_one_that_answered_before(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    upgrade = Upgrade(account, terraform, cluster.url, newest=6)
    upgrade.publish(4)
    monkeypatch.setattr(LambdaFunction, "invoke", lambda *_: b"[]")
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert ran.code == 0, ran.err
    for name in ("api", "tick", "provision"):
        assert upgrade.published(name) == ["1", "4", "5", "6"]
    assert upgrade.live() == {"6"}

    assert det("deploy", "aws", "up", "--yes", *account.where).code == 0
    assert upgrade.published("api") == ["4", "5", "6"]


def test_an_upgrade_that_fails_deletes_no_version(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    upgrade = Upgrade(account, terraform, cluster.url, newest=6)
    upgrade.publish(4)
    monkeypatch.setattr(LambdaFunction, "invoke", lambda *_: b"[]")
    monkeypatch.setattr("det_cli.deployment.health._LIMIT_S", -1.0)
    cluster.on("GET", "/health", Raw(b"{}", status=500))
    assert det("deploy", "aws", "up", "--yes", *account.where).code == 1
    assert upgrade.published("api") == ["1", "2", "3", "4", "5", "6"]
    assert upgrade.live() == {"1"}


def test_a_right_that_is_missing_to_delete_versions_does_not_fail_the_upgrade(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    upgrade = Upgrade(account, terraform, cluster.url, newest=6)
    upgrade.publish(4)
    monkeypatch.setattr(LambdaFunction, "invoke", lambda *_: b"[]")

    def deny(*_: Any, **__: Any) -> None:
        raise LambdaClientError(
            "AccessDeniedException", "not authorized to perform: lambda:DeleteFunction"
        )

    monkeypatch.setattr(LambdaResponse, "delete_function", deny)
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert ran.code == 0, ran.err
    assert "warning: old versions of det-box-api stay: " in ran.err
    assert upgrade.live() == {"6"}
