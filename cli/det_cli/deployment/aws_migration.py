"""Upgrade the database by invoking the migration function."""

import json
import time
from typing import Any, Protocol

from det_cli.errors import CommandError

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


class Functions(Protocol):
    """The account calls that this module needs."""

    def client_for_one_try(self, service: str, read_timeout_s: int) -> Any: ...


def migrate(aws: Functions, function: str) -> None:
    """Run the migration once. Raises CommandError with the reason of a failure."""
    response = _invoke(
        aws.client_for_one_try("lambda", _ANSWER_S), FunctionName=function, Payload=b"{}"
    )
    if "FunctionError" in response:
        error = json.loads(response["Payload"].read() or b"{}")
        raise CommandError(
            f"the migration of the database failed: {error.get('errorMessage', 'no reason given')}",
            "the previous functions still serve; fix the cause and run the same command again",
        )


def _invoke(functions: Any, **call: Any) -> Any:
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
                f"the database migration did not respond: {e}",
                "it may still be running: wait 15 minutes, then run the same command again",
            ) from e
        time.sleep(5)
