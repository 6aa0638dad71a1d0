"""HTTP checks of a deployed control plane: its health and its first password."""

import time

from determined.common.http import APIError, MasterUnreachableError, Session
from determined.common.sign_in import login

from det_cli.errors import CommandError
from det_cli.render import Say

_LIMIT_S = 120.0
_POLL_S = 2.0


def is_healthy(url: str) -> bool:
    """Return True if the control plane answers its health check."""
    try:
        Session(url, retries=0).get("/health")
    except (APIError, MasterUnreachableError):
        return False
    return True


def wait_until_healthy(url: str, hint: str, say: Say) -> None:
    """Wait until the control plane is healthy. A paused database needs some time to resume.

    Raises CommandError with the hint after two minutes.
    """
    say(f"Waiting for {url}")
    deadline = time.monotonic() + _LIMIT_S
    while not is_healthy(url):
        if time.monotonic() > deadline:
            raise CommandError(f"the cluster does not answer at {url}", hint)
        time.sleep(_POLL_S)


def accepts_password(url: str, password: str) -> bool:
    """Return True if admin can sign in with the password."""
    try:
        login(Session(url, retries=0), "admin", password)
    except (APIError, MasterUnreachableError):
        return False
    return True
