"""Translate unexpected AWS errors into CommandError with the next step."""

from collections.abc import Iterator
from contextlib import contextmanager

from det_cli.deployment import extras
from det_cli.errors import CommandError

_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403", "Forbidden")
_CONTINUE = "run the same command again to continue"


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise CommandError instead of botocore's errors."""
    with extras.needed("aws"):
        import boto3  # noqa: F401  # botocore may be installed without boto3
        from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as e:
        error = e.response.get("Error", {})
        code, message = str(error.get("Code", "")), str(error.get("Message", "no reason given"))
        if code in _EXPIRED:
            raise CommandError(
                "the session at AWS has expired",
                f"run `aws sso login`, or sign in again; then {_CONTINUE}",
            ) from e
        if code in _DENIED:
            raise CommandError(
                f"AWS denies {e.operation_name}: {message}",
                f"ask an account administrator for this permission, then {_CONTINUE}",
            ) from e
        raise CommandError(
            f"AWS rejected {e.operation_name}: {code}: {message}", f"fix the cause and {_CONTINUE}"
        ) from e
    except BotoCoreError as e:
        raise CommandError(
            f"AWS cannot be reached: {e}",
            f"check connection, credentials and region, then {_CONTINUE}",
        ) from e
