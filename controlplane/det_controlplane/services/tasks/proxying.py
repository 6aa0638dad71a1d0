"""Who may reach which port of a task through `/proxy/`, and where that is."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.core.roles import Right
from det_controlplane.db import logs, proxies
from det_controlplane.db.proxies import ProxiedTask
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, Missing, NotSignedIn, Unreachable
from det_controlplane.services.identity import authentication, route_rights, task_rights
from det_controlplane.services.identity.principal import User
from det_controlplane.services.tasks import access

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")  # RFC 6750, section 2.1


@dataclass(frozen=True, slots=True)
class RequestTokens:
    """The tokens that a request to a task may carry; an empty one is absent."""

    bearer: str = ""  # of the header Authorization
    allocation: str = ""  # of the header by which tasks sign in
    cookies: tuple[str, ...] = ()  # of those who signed in with this browser
    in_address: str = (
        ""  # ?token= or "Authorization: token …", which are the task's own to check, too
    )
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
    is_the_viewers: bool  # its owner is signed in with what the request carries
    session_id: int | None  # of whoever is signed in with it
    caller: str | None  # whose share of a process the traffic takes; None: that of its address
    opened_by: RequestTokens  # the part of what the request carries that decided


def target(ctx: Context, service: str, tokens: RequestTokens) -> Target:
    """Return where traffic to a service goes. Refuses strangers before it says what there is."""
    task_id, port = _named(service)
    task = proxies.of_task(ctx.db, task_id)
    proxied = None if task is None else _proxied(task.proxies, port)
    by_bearer = _found(ctx, task_id, (tokens.bearer,))
    others = (tokens.allocation, *tokens.cookies)
    signed_in, decisive = by_bearer or _found(ctx, task_id, others) or (None, "")
    to_keep, user = "", signed_in
    if task is not None and not (proxied and proxied["tcp"]):
        _refuse_page_of_another(ctx, task, tokens)
    if proxied is None or not _is_open(task, proxied):
        if user is None:
            of_task = (tokens.in_address, tokens.kept)
            opener = _opener(ctx, task, of_task)
            user, decisive = _found_of_task(ctx, task_id, of_task) or (None, opener)
            to_keep = _to_keep(ctx, task_id, task, tokens.in_address)
        if task is None:
            _refuse_ended(ctx, task_id, user, tokens)
        if user is None and not decisive:
            raise NotSignedIn("sign in to reach tasks: with 'det user login', or in this browser")
        if task is None or proxied is None:
            raise Missing(f"no running task has the proxied port '{service}'")
        if user is not None:
            _require(ctx, user, task)
    assert task is not None
    _refuse_session_in_address(ctx, tokens, task_id)
    tcp = bool(proxied["tcp"])
    if task.container_id is None or task.agent_id is None:
        why = f"task {task_id} does not run yet: see 'det why task {task_id}'"
        raise PortUnreachable(why, tcp=tcp)
    if task.state is not ContainerState.RUNNING:
        why = f"task {task_id} does not run: its container is {_shown(task.state)}"
        raise PortUnreachable(why, tcp=tcp)
    return Target(
        task_id, task.container_id, task.agent_id, int(proxied["port"]), tcp,
        by_bearer is not None or tokens.bearer.startswith(authentication.AGENT_PREFIX), to_keep,
        signed_in is not None and signed_in.id == task.owner_id,
        None if signed_in is None else signed_in.session_id, None if user is None else user.caller,
        _only(tokens, decisive),
    )  # fmt: skip


def _refuse_ended(ctx: Context, task_id: str, user: User | None, tokens: RequestTokens) -> None:
    """Say how a task ended to its owner, to administrators, and by the address that opened it."""
    found = proxies.ended(ctx.db, task_id)
    if found is None:
        return
    is_told = user is not None and not user.narrow and (user.admin or user.id == found.owner_id)
    of_task = (tokens.in_address, tokens.kept)
    if is_told or any(t and access.opens(ctx, task_id, found.access_key, t) for t in of_task):
        raise Missing(
            f"task {task_id} has ended: {found.exit_status}. What it served takes a new task"
        )


def _only(tokens: RequestTokens, token: str) -> RequestTokens:
    """Return of what a request carries the token that opened a port; it opens it again, and the rest is the client's to make up."""
    return RequestTokens(
        bearer=token if token == tokens.bearer else "",
        allocation=token if token == tokens.allocation else "",
        cookies=(token,) if token and token in tokens.cookies else (),
        kept=token if token in (tokens.in_address, tokens.kept) else "",
    )


def is_still_open(
    ctx: Context, service: str, tokens: RequestTokens, session_id: int | None
) -> bool:
    """Return whether a connection that was opened like this would be opened again, by the same sign-in.

    Of a task that is gone the connection itself tells: what came last from it is still on its way."""
    try:
        return target(ctx, service, tokens).session_id == session_id
    except Unreachable:
        return True
    except (Forbidden, Missing, NotSignedIn):
        return proxies.of_task(ctx.db, _named(service)[0]) is None


def any_wanted(ctx: Context) -> bool:
    """Return whether a task with ports runs, or waits to: a relay is needed."""
    return proxies.any_wanted(ctx.db)


def tell(ctx: Context, task_ids: Iterable[str], line: str) -> None:
    """Add a line to the logs of some tasks."""
    with ctx.db.begin() as tx:
        for task_id in task_ids:
            logs.add_line(tx, task_id, line, ctx.now())


def touch(ctx: Context, task_ids: Sequence[str]) -> None:
    """Store that traffic goes to some tasks now."""
    proxies.touch(ctx.db, task_ids, ctx.now())


def _named(service: str) -> tuple[str, int | None]:
    """Return the task and the port of `<task>:<port>`; no port means the task's first."""
    task_id, colon, port = service.rpartition(":")
    if colon and port.isascii() and port.isdigit() and len(port) <= 5:
        return task_id, int(port)
    return service, None


def _proxied(ports: Sequence[dict[str, Any]], port: int | None) -> dict[str, Any] | None:
    if port is None:
        return ports[0] if ports else None
    return next((p for p in ports if p["port"] == port), None)


def _first(ctx: Context, task_id: str, tokens: Iterable[str]) -> User | None:
    """Return the holder of the first token that is good."""
    found = _found(ctx, task_id, tokens)
    return None if found is None else found[0]


def _found(ctx: Context, task_id: str, tokens: Iterable[str]) -> tuple[User, str] | None:
    """Return the first token that is good, with its holder."""
    for token in tokens:
        if token and not token.startswith(authentication.AGENT_PREFIX):
            try:
                return authentication.user_of(ctx, token, ("task", task_id)), token
            except NotSignedIn:
                continue
    return None


def _found_of_task(ctx: Context, task_id: str, tokens: Iterable[str]) -> tuple[User, str] | None:
    """Find the port among tokens that the task may see, which are therefore its own."""
    for token in tokens:
        found = _found(ctx, task_id, (token,))
        if found is not None and found[0].task_id == task_id:
            return found
    return None


def _opener(ctx: Context, task: ProxiedTask | None, tokens: Iterable[str]) -> str:
    """Return the token that is that of the task's address; empty if none is."""
    return next((token for token in tokens if _is_opened(ctx, task, token)), "")


def _is_opened(ctx: Context, task: ProxiedTask | None, token: str) -> bool:
    """Return whether a token is that of the address which the task's owner got."""
    if task is None or not task.owner_is_active or not token:
        return False
    return access.opens(ctx, task.task_id, task.access_key, token)


def _to_keep(ctx: Context, task_id: str, task: ProxiedTask | None, token: str) -> str:
    """Return the token of an address if it opens the task by itself, and is nothing but a token."""
    if not _TOKEN.fullmatch(token):
        return ""
    opens = _is_opened(ctx, task, token) or _found_of_task(ctx, task_id, (token,))
    return token if opens else ""


def _is_open(task: ProxiedTask | None, proxied: dict[str, Any]) -> bool:
    """Return whether strangers reach a port; keys and addresses of a user who was deactivated open nothing more."""
    return bool(proxied["unauthenticated"]) and task is not None and task.owner_is_active


def _refuse_page_of_another(ctx: Context, task: ProxiedTask, tokens: RequestTokens) -> None:
    """Keep a browser that is signed in from showing what another user's program serves.

    Scripts of such a page share the origin of the API, and would act with the session of whoever looks at it."""
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
    found = _first(ctx, task_id, (tokens.in_address,))
    if found is not None and found.task_id != task_id:
        raise Forbidden(
            "the address carries a session token, which the task would see: send it as a header"
        )


def _shown(state: ContainerState | None) -> str:
    return state.value.lower() if state else "gone"
