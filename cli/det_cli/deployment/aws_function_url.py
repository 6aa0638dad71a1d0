"""Rights to invoke the API's function: everybody may by its URL, and nobody directly.

AWS asks for `lambda:InvokeFunction` beside `lambda:InvokeFunctionUrl`. Terraform's provider can narrow the first to
calls by the URL since version 6.29. The stack uses version 5, so this command gives the right."""

from typing import Any, Protocol

from det_cli.errors import CommandError

_STATEMENT = "url-only"  # Terraform gave the right without a condition as "url-invoke"
_CONDITION = "InvokedViaFunctionUrl"


class Functions(Protocol):
    """List what is asked of the operator's account."""

    def client(self, service: str) -> Any: ...


def is_wanted(endpoint: object) -> bool:
    """Return whether the cluster's address is the URL of its function."""
    return endpoint in (None, "function_url")


def check_sdk(aws: Functions) -> None:
    """Check that boto3 knows the condition. Raises CommandError."""
    operation = aws.client("lambda").meta.service_model.operation_model("AddPermission")
    if _CONDITION not in operation.input_shape.members:
        raise CommandError(
            "boto3 is too old to let everybody invoke the API by its URL only",
            "`pip install --upgrade boto3`, or give --var endpoint=api_gateway",
        )


def allow(aws: Functions, function: str, alias: str) -> bool:
    """Let everybody invoke a function by its URL. Returns False if there is no such function yet."""
    functions = aws.client("lambda")
    try:
        functions.add_permission(
            FunctionName=function, Qualifier=alias, StatementId=_STATEMENT, Principal="*",
            Action="lambda:InvokeFunction", InvokedViaFunctionUrl=True,
        )  # fmt: skip
    except functions.exceptions.ResourceConflictException:  # the statement is there
        return True
    except functions.exceptions.ResourceNotFoundException:
        return False
    return True


def forbid(aws: Functions, function: str, alias: str) -> None:
    """Take the right back, where it was given."""
    functions = aws.client("lambda")
    try:
        functions.remove_permission(FunctionName=function, Qualifier=alias, StatementId=_STATEMENT)
    except functions.exceptions.ResourceNotFoundException:
        return
