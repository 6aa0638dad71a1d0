"""All callers may use the API's URL, but they cannot invoke its function directly with a forged event."""

from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from det_cli.deployment import aws_functions
from det_cli.deployment.aws_account import Aws
from det_cli.errors import CommandError
from moto.awslambda.models import LambdaFunction, lambda_backends

from tests.cli.conftest import Det
from tests.cli.test_deploy_aws_upgrades import Upgrade
from tests.support.aws_account import Account
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_terraform import FakeTerraform
from tests.support.moto_permissions import answers_url, may_be_invoked_by_strangers

API, LIVE = "det-box-api", "live"


@pytest.fixture
def aws(account: Account) -> Aws:
    return Aws("us-west-2", account.url)


def backend() -> Any:
    return lambda_backends["123456789012"]["us-west-2"]


def grant_as_terraform(account: Account, **more: Any) -> None:
    """Add the stack's statement to the function's policy; `more` changes its arguments."""
    functions = account.client("lambda")
    at = {"FunctionName": API, "Qualifier": LIVE, "Principal": "*"}
    if not more:
        more = {"StatementId": "url", "Action": "lambda:InvokeFunctionUrl", "FunctionUrlAuthType": "NONE"}  # fmt: skip
    functions.add_permission(**at, **more)


def test_up_allows_only_calls_by_the_url(
    det: Det, account: Account, terraform: FakeTerraform, cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    Upgrade(account, terraform, cluster.url)
    monkeypatch.setattr(LambdaFunction, "invoke", lambda *_: b"[]")
    grant_as_terraform(account)
    assert not answers_url(backend(), API, LIVE), "AWS requires both permissions since October 2025"
    for _ in range(2):  # the second run finds the permission
        result = det("deploy", "aws", "up", "--yes", *account.where)
        assert result.code == 0, result.err
    assert answers_url(backend(), API, LIVE)
    assert not may_be_invoked_by_strangers(backend(), API, LIVE)


def test_the_url_answers_while_terraform_removes_the_old_permission(
    account: Account, aws: Aws
) -> None:
    account.make_functions()
    grant_as_terraform(account)
    grant_as_terraform(account, StatementId="url-invoke", Action="lambda:InvokeFunction")
    assert may_be_invoked_by_strangers(backend(), API, LIVE)
    assert aws_functions.allow_url_calls(aws, API, LIVE)
    account.client("lambda").remove_permission(
        FunctionName=API, Qualifier=LIVE, StatementId="url-invoke"
    )
    assert answers_url(backend(), API, LIVE)
    assert not may_be_invoked_by_strangers(backend(), API, LIVE)


def test_a_cluster_behind_api_gateway_does_not_allow_the_url(account: Account, aws: Aws) -> None:
    account.make_functions()
    aws_functions.allow_url_calls(aws, API, LIVE)
    aws_functions.forbid_url_calls(aws, API, LIVE)
    grant_as_terraform(account)
    assert not answers_url(backend(), API, LIVE)
    aws_functions.forbid_url_calls(aws, API, LIVE)  # a second call is not an error


def test_a_missing_function_is_not_an_error(aws: Aws) -> None:
    assert not aws_functions.allow_url_calls(aws, API, LIVE)


def test_rejects_an_old_boto3_with_a_hint(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    operation = aws.client("lambda").meta.service_model.operation_model("AddPermission")
    monkeypatch.delitem(operation.input_shape.members, "InvokedViaFunctionUrl")
    with pytest.raises(CommandError, match="this version of boto3 cannot restrict") as error:
        aws_functions.check_sdk(aws)
    assert "pip install --upgrade boto3" in str(error.value.hint)


def test_does_not_repeat_a_migration_after_a_lost_response(account: Account, aws: Aws) -> None:
    account.make_functions("migrate")
    functions = aws.client_for_one_try("lambda", 910)
    bodies: list[str] = []

    def lose(**_: Any) -> None:
        bodies.append("Invoke")
        raise ReadTimeoutError(endpoint_url=account.url)

    functions.meta.events.register("before-send.lambda.Invoke", lose)
    with pytest.raises(CommandError, match="did not respond") as error:
        aws_functions.migrate(aws, "det-box-migrate")
    assert bodies == ["Invoke"]
    assert "may still be running" in str(error.value.hint)
    assert functions.meta.config.read_timeout > 900
