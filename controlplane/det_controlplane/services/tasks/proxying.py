"""Find the port of a task behind `/proxy/`, and check the right to reach it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.core.people.roles import Right
from det_controlplane.db.logs import logs
from det_controlplane.db.tasks import proxies
from det_controlplane.db.tasks.proxies import ProxiedTask
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, Missing, NotSignedIn, Unreachable
from det_controlplane.services.identity import authentication, route_rights, task_rights
from det_controlplane.services.principal import User
from det_controlplane.services.tasks import access

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")  # RFC 6750, section 2.1


@dataclass(frozen=True, slots=True)
class RequestTokens:
    """The tokens that a request to a task may carry; an empty one is absent."""

    bearer: str = ""  # of the header Authorization
    allocation: str = ""  # of the header by which tasks sign in
    cookies: tuple[str, ...] = ()  # users who signed in with this browser
    # ?token= or "Authorization: token …", which are the task's own to check, too.
    in_address: str = ""
    kept: str = ""  # the same from an earlier request


class PortUnreachable(Unreachable):
    """A proxied port of a task does not answer (yet)."""

    def __init__(self, message: str, *, tcp: bool) -> None:
        super().__init__(message)
        self.tcp = tcp


@dataclass(frozen=True, slots=True)
class Target:
    task_id: str
    container_id: str
    agent_id: str
    port: int
    tcp: bool
    bearer_is_ours: bool  # and must not be passed on to the task
    to_keep: str  # a token that later requests of this browser will lack
    is_the_viewers: bool  # the request carries a sign-in of the owner
    session_id: int | None  # the session of the sign-in
    caller: str | None  # the key for limits; None stands for the address
    opened_by: RequestTokens  # the token that decided


@dataclass(frozen=True, slots=True)
class _Opening:
    """The credential that opens a port for a request: a sign-in, or the token in the task's address."""

    token: str = ""  # the decisive one
    user: User | None = None  # its holder
    signed_in: bool = False
    to_keep: str = ""


_NO_OPENING = _Opening()


def target(ctx: Context, service: str, tokens: RequestTokens) -> Target:
    """Return the target of traffic to a service. Strangers are refused before the service is looked up."""
    task_id, port = _parse_service(service)
    task = proxies.of_task(ctx.db, task_id)
    proxied = None if task is None else _find_port(task.proxies, port)
    if task is not None and not (proxied and proxied["tcp"]):
        _refuse_page_of_another(ctx, task, tokens)
    opening = _sign_in(ctx, task_id, tokens)
    # Strangers may use such a port, unless its user was deactivated.
    if task and proxied and proxied["unauthenticated"] and task.owner_is_active:
        opening = opening or _NO_OPENING
    else:
        opening = opening or _by_address(ctx, task_id, task, tokens)
        if task is None:
            _refuse_ended(ctx, (task_id, port), opening.user, tokens)
        if not opening.token:
            raise NotSignedIn("sign in to reach tasks: with 'det user login', or in this browser")
        if task is None or proxied is None:
            raise Missing(f"no running task has the proxied port '{service}'")
        if opening.user is not None:
            _require(ctx, opening.user, task)
    _refuse_session_in_address(ctx, tokens, task_id)
    return _target(task, proxied, opening, tokens)


def _sign_in(ctx: Context, task_id: str, tokens: RequestTokens) -> _Opening | None:
    holder = _find_holder(ctx, task_id, (tokens.bearer, tokens.allocation, *tokens.cookies))
    return None if holder is None else _Opening(holder[1], holder[0], signed_in=True)


def _by_address(
    ctx: Context, task_id: str, task: ProxiedTask | None, tokens: RequestTokens
) -> _Opening:
    """Open a port by a token for the task: the token in the address of its owner, or the task's own session."""
    for token in (tokens.in_address, tokens.kept):
        to_keep = token if token == tokens.in_address and _TOKEN.fullmatch(token) else ""
        if _is_opened(ctx, task, token):
            return _Opening(token, to_keep=to_keep)
        user = _first(ctx, task_id, (token,))
        if user is not None and user.task_id == task_id:
            return _Opening(token, user, to_keep=to_keep)
    return _NO_OPENING


def _target(
    task: ProxiedTask, proxied: dict[str, Any], opening: _Opening, tokens: RequestTokens
) -> Target:
    """Return a port of a running task. Raises PortUnreachable where it does not run."""
    tcp = bool(proxied["tcp"])
    if task.container_id is None or task.agent_id is None:
        why = f"task {task.task_id} does not run yet: see 'det why task {task.task_id}'"
        raise PortUnreachable(why, tcp=tcp)
    if task.state is not ContainerState.RUNNING:
        state = task.state.value.lower() if task.state else "gone"
        why = f"task {task.task_id} does not run: its container is {state}"
        raise PortUnreachable(why, tcp=tcp)
    user = opening.user
    signed_in = user if opening.signed_in else None
    of_agent = tokens.bearer.startswith(authentication.AGENT_PREFIX)
    by_bearer = opening.signed_in and opening.token == tokens.bearer
    return Target(
        task_id=task.task_id,
        container_id=task.container_id,
        agent_id=task.agent_id,
        port=int(proxied["port"]),
        tcp=tcp,
        bearer_is_ours=by_bearer or of_agent,
        to_keep=opening.to_keep,
        is_the_viewers=signed_in is not None and signed_in.id == task.owner_id,
        session_id=None if signed_in is None else signed_in.session_id,
        caller=None if user is None else user.caller,
        opened_by=_only_token(tokens, opening.token),
    )


def _refuse_ended(
    ctx: Context, service: tuple[str, int | None], user: User | None, tokens: RequestTokens
) -> None:
    """Explain the end of a task to its owner, to administrators, and to holders of its address.

    Strangers could reach some of its ports, such as the port of a shell. They learn that the task has ended."""
    task_id, port = service
    task = proxies.ended(ctx.db, task_id)
    if task is None:
        return
    may_know = user is not None and not user.narrow and (user.admin or user.id == task.owner_id)
    of_task = (tokens.in_address, tokens.kept)
    if may_know or any(t and access.opens(ctx, task_id, task.access_key, t) for t in of_task):
        raise Missing(
            f"task {task_id} has ended: {task.exit_status}. What it served takes a new task"
        )
    proxied = _find_port(task.proxies, port)
    if proxied is not None and proxied["unauthenticated"]:
        raise Missing(f"task {task_id} has ended")


def _only_token(tokens: RequestTokens, token: str) -> RequestTokens:
    """Return the token that opened a port. Only this token may open it again, because clients can forge the rest of
    a request."""
    return RequestTokens(
        bearer=token if token == tokens.bearer else "",
        allocation=token if token == tokens.allocation else "",
        cookies=(token,) if token and token in tokens.cookies else (),
        kept=token if token in (tokens.in_address, tokens.kept) else "",
    )


def is_still_open(
    ctx: Context, service: str, tokens: RequestTokens, session_id: int | None
) -> bool:
    """Return whether the same sign-in could open the connection again.

    If the task has ended, the connection itself ends; its last data is still on the way."""
    try:
        return target(ctx, service, tokens).session_id == session_id
    except Unreachable:
        return True
    except (Forbidden, Missing, NotSignedIn):
        return proxies.of_task(ctx.db, _parse_service(service)[0]) is None


def is_relay_needed(ctx: Context) -> bool:
    """Return whether a task with ports runs, or waits to: a relay is needed."""
    return proxies.is_relay_needed(ctx.db)


def add_log_line(ctx: Context, task_ids: Iterable[str], line: str) -> None:
    """Add a line to the logs of some tasks."""
    with ctx.db.begin() as tx:
        for task_id in task_ids:
            logs.add_line(tx, task_id, line, ctx.now())


def touch(ctx: Context, task_ids: Sequence[str]) -> None:
    """Store the time of the traffic to some tasks."""
    proxies.touch(ctx.db, task_ids, ctx.now())


def reconnect_agent(ctx: Context, agent_id: str) -> None:
    """Make an agent connect to the relay again: it may be connected to an instance that clients do not reach."""
    proxies.miss(ctx.db, agent_id)
    ctx.waker.wake(f"agent:{agent_id}")


def _parse_service(service: str) -> tuple[str, int | None]:
    """Return the task and the port of `<task>:<port>`; no port means the task's first."""
    task_id, colon, port = service.rpartition(":")
    if colon and port.isascii() and port.isdigit() and len(port) <= 5:
        return task_id, int(port)
    return service, None


def _find_port(ports: Sequence[dict[str, Any]], port: int | None) -> dict[str, Any] | None:
    if port is None:
        return ports[0] if ports else None
    return next((p for p in ports if p["port"] == port), None)


def _first(ctx: Context, task_id: str, tokens: Iterable[str]) -> User | None:
    """Return the holder of the first token that is good."""
    holder = _find_holder(ctx, task_id, tokens)
    return None if holder is None else holder[0]


def _find_holder(ctx: Context, task_id: str, tokens: Iterable[str]) -> tuple[User, str] | None:
    """Return the first token that is good, with its holder."""
    for token in tokens:
        if token and not token.startswith(authentication.AGENT_PREFIX):
            try:
                return authentication.user_of(ctx, token, ("task", task_id)), token
            except NotSignedIn:
                continue
    return None


def _is_opened(ctx: Context, task: ProxiedTask | None, token: str) -> bool:
    """Return whether a token is the one in the address of the task's owner."""
    if task is None or not task.owner_is_active or not token:
        return False
    return access.opens(ctx, task.task_id, task.access_key, token)


def _refuse_page_of_another(ctx: Context, task: ProxiedTask, tokens: RequestTokens) -> None:
    """Refuse to show another user's program in a signed-in browser.

    Scripts of such a page share the origin of the API and could use the session of the viewer."""
    # The API may read another of them than the task's paths would: all of them count.
    viewers = [_first(ctx, task.task_id, (cookie,)) for cookie in tokens.cookies]
    if any(viewer is not None and viewer.id != task.owner_id for viewer in viewers):
        raise Forbidden(
            f"task {task.task_id} is of user {task.owner}: what it serves could act with your sign-in here. Open it in a"
            " private window, by the address that its owner is told"
        )


def _require(ctx: Context, user: User, task: ProxiedTask) -> None:
    if user.task_id == task.task_id:
        return
    if user.narrow:
        raise task_rights.only_for_itself(user)
    of_trial = task.kind == "TRIAL"
    right = Right.VIEW_EXPERIMENT_ARTIFACTS if of_trial else Right.VIEW_NSC
    route_rights.require_things(ctx, user, right, "task", [task.task_id])


def _refuse_session_in_address(ctx: Context, tokens: RequestTokens, task_id: str) -> None:
    """Refuse the session of a user in an address: a task reads its addresses."""
    holder = _first(ctx, task_id, (tokens.in_address,))
    if holder is not None and holder.task_id != task_id:
        raise Forbidden(
            "the address carries a session token, which the task would see: send it as a header"
        )
