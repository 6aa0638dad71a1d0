"""Requests to a deployed cluster: check its health and first password, and drain it before its removal."""

import time
from typing import Any

from determined.common.failures import Failure
from determined.common.http import APIError, MasterUnreachableError, Session
from determined.common.pages import V1, pages
from determined.common.sign_in import SignedIn, login, open_session, sign_in
from determined.common.token_store import TokenStore

from det_cli.errors import CommandError
from det_cli.render import Say

_HEALTHY_S = 120.0
_HEALTH_POLL_S = 2.0


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
    deadline = time.monotonic() + _HEALTHY_S
    while not is_healthy(url):
        if time.monotonic() > deadline:
            raise CommandError(f"the cluster does not answer at {url}", hint)
        time.sleep(_HEALTH_POLL_S)


def accepts_password(url: str, password: str) -> bool:
    """Return True if admin can sign in with the password."""
    try:
        login(Session(url, retries=0), "admin", password)
    except (APIError, MasterUnreachableError):
        return False
    return True


_CONTAINERS_POLL_S = 5.0


def drain(url: str, first_password: str, limit_s: float, say: Say) -> None:
    """Stop scheduling, pause experiments so that they save checkpoints, and wait until no containers run.

    Raises CommandError if the cluster cannot be reached or if containers remain after the limit.
    """
    try:
        session = signed_in(url, first_password)
        _stop_scheduling(session)
        paused = _pause(session)
        say(f"Draining: {paused} experiments pause after saving a checkpoint")
        remaining = _wait(session, limit_s, say)
    except (APIError, MasterUnreachableError, Failure) as e:
        hint = getattr(e, "hint", "") or f"`det -m {url} user login admin`"
        raise CommandError(f"the cluster cannot be drained: {e}", f"{hint}, or give --force") from e
    if remaining:
        raise CommandError(
            f"after {limit_s:g} s, work still runs on {', '.join(dict.fromkeys(remaining))}",
            "run the same command again to wait longer, stop the work (`det task list`, `det task kill ID`), or give"
            " --force; the cluster was not removed: `det pool resume`, `det agent enable` and"
            " `det experiment activate` undo the drain",
        )


def signed_in(url: str, first_password: str) -> Session:
    """Sign in as admin with the first password, or as the user who signed in on this machine before."""
    anonymous = open_session(url)
    try:
        return SignedIn(anonymous, "admin", login(anonymous, "admin", first_password))
    except APIError:
        return sign_in(anonymous, TokenStore(url))


def _stop_scheduling(session: Session) -> None:
    reason = {"reason": "the cluster is being removed"}
    for pool in session.get(f"{V1}/rented-pools")["pools"]:
        if not (pool["hold"] or {}).get("byOperator"):  # automatic holds may end on their own
            session.post(f"{V1}/rented-pools/{pool['name']}/hold", reason)
    for agent in session.get(f"{V1}/agents")["agents"]:
        session.post(f"{V1}/agents/{agent['id']}/disable", {"drain": True})


def _pause(session: Session) -> int:
    experiments = list(pages(session, "/experiments", "experiments", {"states": "STATE_ACTIVE"}))
    managed = [e for e in experiments if not e.get("unmanaged")]
    for experiment in managed:
        session.post(f"{V1}/experiments/{experiment['id']}/pause")
    return len(managed)


def _wait(session: Session, limit_s: float, say: Say) -> list[str]:
    """Wait until no containers run. Return the agents with remaining containers after the limit."""
    deadline, printed = time.monotonic() + limit_s, -1
    while agents := _list_running_containers(session):
        if time.monotonic() >= deadline:
            break
        if len(agents) != printed:
            printed = len(agents)
            say(f"Waiting for {printed} containers to end, {limit_s:g} s at most")
        _rest()
    return agents


def _rest() -> None:
    time.sleep(_CONTAINERS_POLL_S)


def _list_running_containers(session: Session) -> list[str]:
    """Return one agent id for each running container."""
    agents: list[dict[str, Any]] = session.get(f"{V1}/agents")["agents"]
    return [agent["id"] for agent in agents for _ in agent["containers"]]
