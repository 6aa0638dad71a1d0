"""Upgrade the database by invoking the migration function."""

import json
import time
from typing import Any, Protocol

from det_cli.errors import CommandError

# As long as the function may take, and a little more. A repeated call would run beside the first one.
_ANSWER_S = 900 + 10
# Errors of a function that Lambda takes a minute or two to put into its network, after weeks without a call, and of one
# that is at work already: it runs once at a time.
_NOT_READY = (
    "TooManyRequestsException",
    "CodeArtifactUserPendingException",
    "ResourceConflictException",
    "ResourceNotReadyException",
)
_READY_S = 180.0


class Functions(Protocol):
    """List what is asked of the operator's account."""

    def client_for_one_try(self, service: str, read_timeout_s: int) -> Any: ...


def migrate(aws: Functions, function: str) -> None:
    """Run the migration once. Raises CommandError with its reason."""
    answer = _once_ready(
        aws.client_for_one_try("lambda", _ANSWER_S), FunctionName=function, Payload=b"{}"
    )
    if "FunctionError" in answer:
        told = json.loads(answer["Payload"].read() or b"{}")
        raise CommandError(
            f"the migration of the database failed: {told.get('errorMessage', 'no reason given')}",
            "the previous functions go on; mend the cause and run the same command again",
        )


def _once_ready(functions: Any, **call: Any) -> Any:
    """Invoke a function, and again while Lambda still makes it ready. Raises CommandError if the answer is lost."""
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
                f"the migration of the database gave no answer: {e}",
                "it may still be at work: wait a quarter of an hour, then run the same command again",
            ) from e
        time.sleep(5)
