"""The rule for new passwords, of users that commands make and of the first ones of a cluster."""

from determined.common.passwords import weakness

from det_cli.errors import UsageError


def check(password: str, hint: str = "") -> None:
    """Refuse a weak password. Raises UsageError."""
    problem = weakness(password)
    if problem:
        raise UsageError(problem, hint)
