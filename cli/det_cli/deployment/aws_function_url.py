"""The permission to invoke the API's function. All callers may use its URL, but they cannot invoke it directly.

AWS requires `lambda:InvokeFunction` in addition to `lambda:InvokeFunctionUrl`. Terraform's provider can restrict
`lambda:InvokeFunction` to URL calls since version 6.29. The stack uses version 5, so this command adds the
permission."""

from typing import Any, Protocol

from det_cli.errors import CommandError

_STATEMENT = "url-only"  # earlier stacks have a statement "url-invoke" without the condition
_CONDITION = "InvokedViaFunctionUrl"


class Functions(Protocol):
    """The account calls that this module needs."""

    def client(self, service: str) -> Any: ...


def is_wanted(endpoint: object) -> bool:
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


def allow(aws: Functions, function: str, alias: str) -> bool:
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


def forbid(aws: Functions, function: str, alias: str) -> None:
    """Remove the permission if it exists."""
    functions = aws.client("lambda")
    try:
        functions.remove_permission(FunctionName=function, Qualifier=alias, StatementId=_STATEMENT)
    except functions.exceptions.ResourceNotFoundException:
        return
