"""The functions of a cluster on AWS: the permission to invoke the API by its URL, and the migration of the database.

All callers may use the URL of the API's function, but they cannot invoke the function directly. AWS requires
`lambda:InvokeFunction` in addition to `lambda:InvokeFunctionUrl`. Terraform's provider can restrict
`lambda:InvokeFunction` to URL calls since version 6.29. The stack uses version 5, so this command adds the
permission."""

import json
import time
from typing import Any, Protocol

from det_cli.errors import CommandError

_STATEMENT = "url-only"  # earlier stacks have a statement "url-invoke" without the condition
_CONDITION = "InvokedViaFunctionUrl"


class Functions(Protocol):
    """The account calls that this module needs."""

    def client(self, service: str) -> Any: ...


def has_function_url(endpoint: object) -> bool:
    """Return True if the cluster's address is the URL of its function."""
    return endpoint in (None, "function_url")


def check_sdk(aws: Functions) -> None:
    """Check that boto3 knows the condition. Raises CommandError."""
    operation = aws.client("lambda").meta.service_model.operation_model("AddPermission")
    if _CONDITION not in operation.input_shape.members:
        raise CommandError(
            "this version of boto3 cannot restrict the API's function to calls by its URL",
            "run `pip install --upgrade boto3`, or give --var endpoint=api_gateway",
        )


def allow_url_calls(aws: Functions, function: str, alias: str) -> bool:
    """Allow all callers to invoke a function by its URL. Return False if the function does not exist yet."""
    functions = aws.client("lambda")
    try:
        functions.add_permission(
            FunctionName=function, Qualifier=alias, StatementId=_STATEMENT, Principal="*",
            Action="lambda:InvokeFunction", InvokedViaFunctionUrl=True,
        )  # fmt: skip
    except functions.exceptions.ResourceConflictException:  # the statement exists
        return True
    except functions.exceptions.ResourceNotFoundException:
        return False
    return True


def forbid_url_calls(aws: Functions, function: str, alias: str) -> None:
    """Remove the permission if it exists."""
    functions = aws.client("lambda")
    try:
        functions.remove_permission(FunctionName=function, Qualifier=alias, StatementId=_STATEMENT)
    except functions.exceptions.ResourceNotFoundException:
        return


# The time limit of the function plus some seconds. A second call would run in parallel to the first call.
_ANSWER_S = 900 + 10
# After weeks without a call, Lambda needs a minute or two to attach a function to the network. The function also
# rejects calls while a migration runs.
_NOT_READY = (
    "TooManyRequestsException",
    "CodeArtifactUserPendingException",
    "ResourceConflictException",
    "ResourceNotReadyException",
)
_READY_S = 180.0


class MigrationFunctions(Protocol):
    """The account calls that this module needs."""

    def client_for_one_try(self, service: str, read_timeout_s: int) -> Any: ...


def migrate(aws: MigrationFunctions, function: str) -> None:
    """Run the migration once. Raises CommandError with the reason of a failure."""
    response = _invoke(
        aws.client_for_one_try("lambda", _ANSWER_S), "database migration",
        FunctionName=function, Payload=b"{}",
    )  # fmt: skip
    if "FunctionError" in response:
        error = json.loads(response["Payload"].read() or b"{}")
        raise CommandError(
            f"the migration of the database failed: {error.get('errorMessage', 'no reason given')}",
            "the previous functions still serve; fix the cause and run the same command again",
        )


def call(
    aws: MigrationFunctions, function: str, event: dict[str, Any], what: str
) -> dict[str, Any] | None:
    """Return the answer of a function, or its error. Return None if there is no such function."""
    functions = aws.client_for_one_try("lambda", _ANSWER_S)
    payload = json.dumps(event).encode()
    try:
        response = _invoke(functions, what, FunctionName=function, Payload=payload)
    except functions.exceptions.ResourceNotFoundException:
        return None
    answer = json.loads(response["Payload"].read() or b"{}")
    if not isinstance(answer, dict):
        raise CommandError(
            f"the functions of this cluster are too old for this {what}",
            "update the cluster with `det deploy aws up`",
        )
    return answer


def _invoke(functions: Any, what: str, **call: Any) -> Any:
    """Invoke a function, with retries while Lambda prepares it. Raises CommandError if the response is lost."""
    from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

    limit = time.monotonic() + _READY_S
    while True:
        try:
            return functions.invoke(**call)
        except ClientError as e:
            if e.response["Error"]["Code"] not in _NOT_READY or time.monotonic() > limit:
                raise
        except (ConnectionError, HTTPClientError) as e:
            raise CommandError(
                f"the {what} did not respond: {e}",
                "it may still be running: wait 15 minutes, then run the same command again",
            ) from e
        time.sleep(5)
