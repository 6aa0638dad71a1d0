"""Upgrades of a cluster on AWS and the function versions that serve requests, with fakes for Terraform and AWS."""

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
    """A cluster with functions that have a serving version and a newer version."""

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
        values = {name: {"value": value} for name, value in outputs.items()}
        resources = {"out": json.dumps(MADE)}
        terraform.answers(output={"out": json.dumps(values)}, state_pull=resources)

    def live(self) -> set[str]:
        return {
            self._lambda.get_alias(FunctionName=f"det-box-{name}", Name="live")["FunctionVersion"]
            for name in ("api", "tick", "provision")
        }

    def publish(self, count: int) -> None:
        """Publish unused versions, as failed deployments do."""
        for name in ("api", "tick", "provision"):
            for number in range(count):
                self._lambda.update_function_code(
                    FunctionName=f"det-box-{name}", ZipFile=b"PK\x05\x06" + bytes(17) + bytes([number]),
                    Publish=True,
                )  # fmt: skip

    def published(self, name: str) -> list[str]:
        versions = self._lambda.list_versions_by_function(FunctionName=f"det-box-{name}")[
            "Versions"
        ]
        return [v["Version"] for v in versions if v["Version"] != "$LATEST"]


def test_an_upgrade_serves_requests_after_the_migration(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    upgrade = Upgrade(account, terraform, cluster.url)
    live_versions: list[set[str]] = []

    def migrate(*_: Any) -> bytes:
        live_versions.append(upgrade.live())
        return b"[]"

    monkeypatch.setattr(LambdaFunction, "invoke", migrate)
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert result.code == 0, result.err
    assert (live_versions, upgrade.live()) == ([{"1"}], {"2"})


def test_retries_until_lambda_has_prepared_the_function(
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
    monkeypatch.setattr("det_cli.deployment.aws_functions.time.sleep", lambda s: None)
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert result.code == 0, result.err
    assert upgrade.live() == {"2"}


def test_a_failed_migration_keeps_the_previous_version(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    upgrade = Upgrade(account, terraform, cluster.url)

    def fail(function: Any, body: Any, headers: Any, answer: dict[str, str]) -> bytes:
        answer["x-amz-function-error"] = "Unhandled"
        return b'{"errorMessage": "no room on disk"}'

    monkeypatch.setattr(LambdaFunction, "invoke", fail)
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert (result.code, "the migration of the database failed: no room on disk" in result.err) == (
        1,
        True,
    )
    assert upgrade.live() == {"1"}


def test_rolls_back_a_version_that_does_not_answer(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    upgrade = Upgrade(account, terraform, cluster.url)
    monkeypatch.setattr(LambdaFunction, "invoke", lambda *_: b"[]")
    monkeypatch.setattr("det_cli.deployment.running_cluster._HEALTHY_S", -1.0)
    cluster.on("GET", "/health", Raw(b"{}", status=500))
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert result.code == 1
    assert f"does not answer at {cluster.url}: the previous version was restored" in result.err
    assert "/aws/lambda/det-box-api shows the reason" in result.err
    assert upgrade.live() == {"1"}


def test_an_upgrade_keeps_the_newest_versions_and_the_previous_one(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    upgrade = Upgrade(account, terraform, cluster.url, newest=6)
    upgrade.publish(4)
    monkeypatch.setattr(LambdaFunction, "invoke", lambda *_: b"[]")
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert result.code == 0, result.err
    for name in ("api", "tick", "provision"):
        assert upgrade.published(name) == ["1", "4", "5", "6"]
    assert upgrade.live() == {"6"}

    assert det("deploy", "aws", "up", "--yes", *account.where).code == 0
    assert upgrade.published("api") == ["4", "5", "6"]


def test_a_failed_upgrade_deletes_no_version(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    upgrade = Upgrade(account, terraform, cluster.url, newest=6)
    upgrade.publish(4)
    monkeypatch.setattr(LambdaFunction, "invoke", lambda *_: b"[]")
    monkeypatch.setattr("det_cli.deployment.running_cluster._HEALTHY_S", -1.0)
    cluster.on("GET", "/health", Raw(b"{}", status=500))
    assert det("deploy", "aws", "up", "--yes", *account.where).code == 1
    assert upgrade.published("api") == ["1", "2", "3", "4", "5", "6"]
    assert upgrade.live() == {"1"}


def test_an_upgrade_succeeds_without_the_permission_to_delete_versions(
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
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert result.code == 0, result.err
    assert "warning: old versions of det-box-api could not be deleted: " in result.err
    assert upgrade.live() == {"6"}
