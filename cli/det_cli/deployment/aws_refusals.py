"""Say what AWS refused as a sentence with the next command, for calls that expect no refusal."""

from collections.abc import Iterator
from contextlib import contextmanager

from det_cli.deployment import extras
from det_cli.errors import CommandError

_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403", "Forbidden")
_GOES_ON = "run the same command again: it goes on"


@contextmanager
def refusals_told() -> Iterator[None]:
    """Raise CommandError in place of botocore's errors."""
    with extras.needed("aws"):
        import boto3  # noqa: F401  # the first of botocore's users, which may be there alone
        from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as e:
        error = e.response.get("Error", {})
        code, message = str(error.get("Code", "")), str(error.get("Message", "no reason given"))
        if code in _EXPIRED:
            raise CommandError(
                "the session at AWS has expired",
                f"`aws sso login`, or sign in again; then {_GOES_ON}",
            ) from e
        if code in _DENIED:
            raise CommandError(
                f"AWS denies {e.operation_name}: {message}",
                f"ask an administrator of the account for that right, then {_GOES_ON}",
            ) from e
        raise CommandError(
            f"AWS refused {e.operation_name}: {code}: {message}", f"mend the cause and {_GOES_ON}"
        ) from e
    except BotoCoreError as e:
        raise CommandError(
            f"AWS cannot be asked: {e}",
            f"check connection, credentials and region, then {_GOES_ON}",
        ) from e
