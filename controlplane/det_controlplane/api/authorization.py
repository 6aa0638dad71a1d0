"""Authenticate the caller of a request, and refuse requests without the required right."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from det_controlplane.api import errors
from det_controlplane.api.http import Request, bearer_token, is_of_another_site
from det_controlplane.api.router import Access, Route
from det_controlplane.core.numerals import whole
from det_controlplane.core.people.permissions import Need, Rule
from det_controlplane.db.engine.errors import DatabaseDown
from det_controlplane.services import errors as refusals
from det_controlplane.services.context import Context
from det_controlplane.services.identity import authentication, reporters, route_rights, task_rights
from det_controlplane.services.principal import Principal, User

Callers = Mapping[str, User]  # by their tokens


def authorize(ctx: Context, route: Route, request: Request, callers: Callers | None = None) -> None:
    """Authenticate the caller, and refuse requests without the required right.

    Lists are limited to the workspaces in which a role of the caller allows them. `callers` contains the callers
    that are already authenticated."""
    _refuse_nul(request)
    _refuse_oversized(route, request)
    request.principal = principal_of(ctx, route, request, callers)
    if isinstance(request.principal, User):
        rule, names = _rule(route), partial(_named_in, request)
        admitted = route_rights.admit(ctx, request.principal, rule, request.params, names)
        request.principal, request.within = admitted.user, admitted.within
        if rule.report:
            _require_reporter(ctx, admitted.user, request)


def _require_reporter(ctx: Context, user: User, request: Request) -> None:
    if "allocationId" in request.params:
        reporters.require_allocation(ctx, user, request.params["allocationId"])
    else:
        reporters.require_trial(ctx, user, request.id("trialId"))


def authorize_together(ctx: Context, route: Route, requests: Sequence[Request]) -> list[Request]:
    """Authenticate the callers of requests by one statement. Return the requests that may pass.

    The other requests are handled one by one, which finds their errors."""
    if route.access in (Access.USER, Access.ADMIN):
        callers = authentication.users_of(ctx, [bearer_token(request) for request in requests])
        _read_owners(ctx, route, requests, callers)
        return authorize_known(ctx, route, requests, callers)
    return authorize_known(ctx, route, requests, {})


def _read_owners(ctx: Context, route: Route, requests: Sequence[Request], callers: Callers) -> None:
    """Read the owners of the trials that people report for by one statement."""
    if _rule(route).report:
        people = {token for token, caller in callers.items() if caller.allocation_id is None}
        texts = [r.params.get("trialId", "") for r in requests if bearer_token(r) in people]
        ids = [id for name in texts if (id := whole(name)) is not None]
        reporters.read_owners(ctx, ids)


def authorize_known(
    ctx: Context, route: Route, requests: Sequence[Request], callers: Callers
) -> list[Request]:
    return [request for request in requests if _is_authorized(ctx, route, request, callers)]


def _is_authorized(ctx: Context, route: Route, request: Request, callers: Callers) -> bool:
    try:
        authorize(ctx, route, request, callers)
    except DatabaseDown:
        raise
    except Exception:  # which it is answered with when it is handled alone
        return False
    return True


def principal_of(
    ctx: Context, route: Route, request: Request, callers: Callers | None = None
) -> Principal | None:
    access = route.access
    # Before public routes, too: signing a visitor in as somebody else is an act on the visitor.
    if is_of_another_site(request):
        raise errors.PermissionDenied("a page of another site cannot act for you here")
    if access in (Access.PUBLIC, Access.AGENT_BY_HANDLER):
        return None
    token = bearer_token(request)
    if access is Access.AGENT:
        return authentication.agent_of(ctx, token)
    rule = _rule(route)
    if callers is None:
        objects = route_rights.named_by_path(rule, request.params)
        user = authentication.user_of(ctx, token, objects)
    elif token in callers:
        user = callers[token]
    else:
        raise refusals.NotSignedIn("the token is unknown")
    if access is Access.ADMIN and not user.admin:
        raise errors.PermissionDenied(f"user {user.username} is not an administrator")
    task_rights.require(ctx, user, rule, request.params)
    return user


def _rule(route: Route) -> Rule:
    if route.rule is None:
        raise errors.PermissionDenied(f"nobody may call {route.method} {route.path}")
    return route.rule


def _refuse_oversized(route: Route, request: Request) -> None:
    """Refuse bodies beyond the route's size, which a host may have read; a packed body unpacks to no more."""
    request.largest = route.largest
    if len(request.body) > route.largest and route.admits is None:
        raise errors.TooLarge(f"the request is larger than {route.largest >> 20} MiB: send less")


def _refuse_nul(request: Request) -> None:
    """Refuse NUL in paths and queries: PostgreSQL's text cannot hold it."""
    params = [(name, [value]) for name, value in request.params.items()]
    for name, values in (*params, *request.query.items()):
        if any("\0" in value for value in values):
            raise errors.BadRequest(f"{name} must not contain a NUL character")


def _named_in(request: Request, need: Need) -> list[object]:
    """Return the objects that a request names, as it wrote them."""
    (first, *_) = need.names
    if need.place == "path":
        return [request.params[first]]
    if need.place == "query":
        return list(request.texts(first, _snake(first)))
    values: list[Any] = [request.json()]
    for name in need.names:
        inner = [_field(value, name) for value in values if isinstance(value, dict)]
        values = [
            item for value in inner for item in (value if isinstance(value, list) else [value])
        ]
    return [
        value for value in values if isinstance(value, str | int | float) and value not in ("", 0)
    ]


def _field(values: dict[str, Any], name: str) -> Any:
    value = values.get(name)
    return values.get(_snake(name)) if value is None else value


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
