"""The rule for new passwords of users, including the first users of a cluster."""

from determined.common.passwords import weakness

from det_cli.errors import UsageError


def check(password: str, hint: str = "") -> None:
    """Raise UsageError if the password is weak."""
    problem = weakness(password)
    if problem:
        raise UsageError(problem, hint)
