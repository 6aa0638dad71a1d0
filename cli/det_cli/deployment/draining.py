"""Ask a cluster's work for checkpoints and let it leave its machines, before these end."""

import time
from typing import Any

from determined.common.failures import Failure
from determined.common.http import APIError, MasterUnreachableError, Session
from determined.common.pages import V1, pages
from determined.common.sign_in import SignedIn, login, open_session, sign_in
from determined.common.token_store import TokenStore

from det_cli.errors import CommandError
from det_cli.render import Say

_LOOK_S = 5.0


def drain(url: str, first_password: str, limit_s: float, say: Say) -> None:
    """Pause experiments, which save checkpoints, and wait until nothing runs any more; nothing new begins.

    Raises CommandError when the cluster cannot be asked, or work is left after the limit.
    """
    try:
        session = signed_in(url, first_password)
        _begin_nothing(session)
        paused = _pause(session)
        say(f"Draining: {paused} experiments pause as soon as they have saved a checkpoint")
        left = _wait(session, limit_s, say)
    except (APIError, MasterUnreachableError, Failure) as e:
        hint = getattr(e, "hint", "") or f"`det -m {url} user login admin`"
        raise CommandError(
            f"the cluster cannot be asked to drain: {e}", f"{hint}, or give --force"
        ) from e
    if left:
        raise CommandError(
            f"after {limit_s:g} s there is still work on {', '.join(dict.fromkeys(left))}",
            "run the same command again to wait on, end that work (`det task list`, `det task kill ID`), or give"
            " --force; nothing was removed: `det pool resume`, `det agent enable` and `det experiment activate` take"
            " it back",
        )


def signed_in(url: str, first_password: str) -> Session:
    """Sign in as admin by the first password, or as whoever has signed in here before."""
    anonymous = open_session(url)
    try:
        return SignedIn(anonymous, "admin", login(anonymous, "admin", first_password))
    except APIError:
        return sign_in(anonymous, TokenStore(url))


def _begin_nothing(session: Session) -> None:
    reason = {"reason": "the cluster is being removed"}
    for pool in session.get(f"{V1}/rented-pools")["pools"]:
        if not (pool["hold"] or {}).get("byOperator"):  # other holds end by themselves
            session.post(f"{V1}/rented-pools/{pool['name']}/hold", reason)
    for agent in session.get(f"{V1}/agents")["agents"]:
        session.post(f"{V1}/agents/{agent['id']}/disable", {"drain": True})


def _pause(session: Session) -> int:
    found = list(pages(session, "/experiments", "experiments", {"states": "STATE_ACTIVE"}))
    managed = [e for e in found if not e.get("unmanaged")]
    for experiment in managed:
        session.post(f"{V1}/experiments/{experiment['id']}/pause")
    return len(managed)


def _wait(session: Session, limit_s: float, say: Say) -> list[str]:
    """Return the agents that still have containers when the limit is over."""
    limit, told = time.monotonic() + limit_s, -1
    while left := _running(session):
        if time.monotonic() >= limit:
            break
        if len(left) != told:
            told = len(left)
            say(f"Waiting for {told} containers to end, {limit_s:g} s at most")
        _rest()
    return left


def _rest() -> None:
    time.sleep(_LOOK_S)


def _running(session: Session) -> list[str]:
    """Return the agents that have containers, each as often as it has."""
    agents: list[dict[str, Any]] = session.get(f"{V1}/agents")["agents"]
    return [agent["id"] for agent in agents for _ in agent["containers"]]
