"""From request to answer: route, principal, handler, and one place that turns refusals into statuses."""

import logging
from functools import partial

from det_controlplane.api import errors
from det_controlplane.api.http import (
    MAX_BODY,
    STRANGERS_BODY,
    Answer,
    Request,
    Response,
    bearer_token,
    is_of_another_site,
)
from det_controlplane.api.named import named_in
from det_controlplane.api.router import Access, Handler, Match, Route, Router
from det_controlplane.core import audit, permissions
from det_controlplane.core.permissions import Rule
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.db.engine import WAKING_S, DatabaseDown, TryAgain, Unstorable
from det_controlplane.services import errors as refusals
from det_controlplane.services.audit import recording
from det_controlplane.services.audit.recording import Recorder
from det_controlplane.services.context import Context
from det_controlplane.services.identity import authentication, route_rights, task_rights
from det_controlplane.services.identity.principal import Principal, User

log = logging.getLogger("det.api")

_TRIES = 4

_STATUS: tuple[tuple[type[Exception], type[errors.ApiError]], ...] = (
    (InvalidConfig, errors.BadRequest),
    (refusals.Missing, errors.NotFound),
    (refusals.Invalid, errors.BadRequest),
    (refusals.WrongState, errors.FailedPrecondition),
    (refusals.Taken, errors.Conflict),
    (refusals.Forbidden, errors.PermissionDenied),
    (refusals.NotSignedIn, errors.Unauthenticated),
    (refusals.Unready, errors.NotYet),
    (refusals.Unreachable, errors.BadGateway),
    (refusals.Oversized, errors.TooLarge),
    (Unstorable, errors.BadRequest),
    (
        UnicodeEncodeError,
        errors.BadRequest,
    ),  # half a surrogate pair, which JSON can spell and no text can have
)


class App:
    """The whole API as one function; hosts differ only in how they carry requests to it."""

    def __init__(self, ctx: Context, router: Router) -> None:
        self.ctx = ctx
        self.router = router

    def handle(self, request: Request) -> Answer:
        try:
            match = self._route(request)
            request.params = match.params
            _refuse_nul(request)
            request.principal = self._principal(match, request)
            self._hold_to_rights(match, request)
            if not audit.is_recorded(match.route.method, match.route.path):
                return self._answer(match.route.handler, request)
            recorder = self._recorder(match, request)
            request.noted = recorder.saw
            with recording.recording(recorder):
                return self._answer(match.route.handler, request)
        except errors.ApiError as e:
            return Response(e.to_json(), e.status)
        except Exception as e:
            return self.failed(request, e)

    def admit(self, request: Request) -> int | Response:
        """Return how large the body of a request may be, from what its headers say of the caller; or the refusal."""
        try:
            match = self._route(request)
            request.params = match.params
            if match.route.admits is not None:
                return match.route.admits(request)
            if match.route.access is Access.AGENT_BY_HANDLER:
                authentication.agent_of(self.ctx, bearer_token(request))
            elif self._principal(match, request) is None:
                return STRANGERS_BODY
        except errors.ApiError as e:
            return Response(e.to_json(), e.status)
        except Exception as e:
            return self.failed(request, e)
        return MAX_BODY

    def _answer(self, handler: Handler, request: Request) -> Answer:
        for _ in range(_TRIES - 1):
            try:
                return handler(self.ctx, request)
            except TryAgain:
                log.info("%s %s collided with another; trying again", request.method, request.path)
        return handler(self.ctx, request)

    def _recorder(self, match: Match, request: Request) -> Recorder:
        method, path, by = match.route.method, match.route.path, request.principal
        return Recorder(
            self.ctx,
            action=audit.action_of(method, path),
            object=audit.object_of(path, match.params),
            address=request.client,
            user=by if isinstance(by, User) else None,
        )

    def failed(self, request: Request, e: Exception) -> Response:
        """The answer to a refusal; anything else is logged under a reference and not shown."""
        if isinstance(e, (DatabaseDown, TryAgain, refusals.Busy)):
            return unavailable(e)
        for kind, api_error in _STATUS:
            if isinstance(e, kind):
                translated = api_error(str(e))
                return Response(translated.to_json(), translated.status)
        reference = self.ctx.new_uuid().hex[:12]
        log.exception("%s %s failed (reference %s)", request.method, request.path, reference)
        internal = errors.ApiError(f"internal error; the server's log has it under {reference}")
        return Response(internal.to_json(), internal.status)

    def _route(self, request: Request) -> Match:
        match = self.router.match(request.method, request.path)
        if isinstance(match, Match):
            return match
        if match:
            raise errors.Unimplemented(
                f"{request.path} does not take {request.method}, only {', '.join(sorted(match))}"
            )
        raise errors.NotFound(f"no such path: {request.path}")

    def _principal(self, match: Match, request: Request) -> Principal | None:
        route, access = match.route, match.route.access
        # Before public routes, too: signing a visitor in as somebody else is an act on the visitor.
        if is_of_another_site(request):
            raise errors.PermissionDenied("a page of another site cannot act for you here")
        if access in (Access.PUBLIC, Access.AGENT_BY_HANDLER):
            return None
        token = bearer_token(request)
        if access is Access.AGENT:
            return authentication.agent_of(self.ctx, token)
        rule = _rule(route)
        named = route_rights.named_by_path(rule, match.params)
        user = authentication.user_of(self.ctx, token, named)
        _admit(access, user)
        task_rights.require(self.ctx, user, rule, match.params)
        return user

    def _hold_to_rights(self, match: Match, request: Request) -> None:
        """Refuse what no role of the caller allows, and hold listings to what one does."""
        if isinstance(request.principal, User):
            rule, names = _rule(match.route), partial(named_in, request)
            admitted = route_rights.admit(self.ctx, request.principal, rule, request.params, names)
            request.principal, request.within = admitted.user, admitted.within


def _rule(route: Route) -> Rule:
    rule = permissions.rule_of(route.method, route.path)
    if rule is None:
        raise errors.PermissionDenied(f"nobody may call {route.method} {route.path}")
    return rule


def unavailable(e: Exception) -> Response:
    """Return the answer to a request that should be sent again, and when."""
    told = errors.Unavailable(str(e))
    after_s = 1 if isinstance(e, (TryAgain, refusals.Busy)) else WAKING_S
    return Response(told.to_json(), told.status, headers={"Retry-After": str(after_s)})


def _admit(access: Access, user: User) -> None:
    if access is Access.ADMIN and not user.admin:
        raise errors.PermissionDenied(f"user {user.username} is not an administrator")


def _refuse_nul(request: Request) -> None:
    """PostgreSQL's text has no NUL, so nothing can be named by one."""
    given = [(name, [value]) for name, value in request.params.items()]
    for name, values in (*given, *request.query.items()):
        if any("\0" in value for value in values):
            raise errors.BadRequest(f"{name} must not contain a NUL character")
