"""Answer requests: find the route, the principal and the handler, and turn refusals into statuses."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from det_controlplane.api import authorization, errors
from det_controlplane.api.http import (
    STRANGERS_BODY,
    Answer,
    Batch,
    Request,
    Response,
    Stream,
    bearer_token,
)
from det_controlplane.api.router import Access, Match, Route, Router
from det_controlplane.core.json_log import enter_ids, leave_ids
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.db.engine.errors import (
    WAKING_S,
    DatabaseDown,
    DatabaseFull,
    QueryFailed,
    TryAgain,
    Unstorable,
)
from det_controlplane.services import errors as refusals
from det_controlplane.services import stored_pools
from det_controlplane.services.context import Context
from det_controlplane.services.identity import authentication
from det_controlplane.services.principal import Principal, User
from det_controlplane.services.recorder import Recorder

log = logging.getLogger("det.api")

_TRIES = 4
_LONGEST_OBJECT = 200
_CHECKED_EVERY = timedelta(seconds=3)  # as connections to tasks are

_STATUS: tuple[tuple[type[Exception], type[errors.ApiError]], ...] = (
    (InvalidConfig, errors.BadRequest),
    (refusals.Missing, errors.NotFound),
    (refusals.Invalid, errors.BadRequest),
    (refusals.WrongState, errors.FailedPrecondition),
    (refusals.Taken, errors.Conflict),
    (refusals.Forbidden, errors.PermissionDenied),
    (refusals.NotSignedIn, errors.Unauthenticated),
    # Before its base class: clients repeat a 504 for seconds, and a backup may take an hour.
    (refusals.DeletionsHeld, errors.FailedPrecondition),
    (refusals.Unready, errors.NotYet),
    (refusals.Unreachable, errors.BadGateway),
    (refusals.Oversized, errors.TooLarge),
    (Unstorable, errors.BadRequest),
    # Half a surrogate pair, which JSON can spell and no text can have.
    (UnicodeEncodeError, errors.BadRequest),
)


class App:
    """The whole API as one function; hosts differ only in how they carry requests to it."""

    def __init__(self, ctx: Context, router: Router) -> None:
        self.ctx = ctx
        self.router = router

    def handle(self, request: Request) -> Answer:
        ids = enter_ids(request.log_ids)
        try:
            return self._handle(request)
        finally:
            leave_ids(ids)

    def _handle(self, request: Request) -> Answer:
        try:
            route = self._routed(request)
            authorization.authorize(self.ctx, route, request)
            ctx = self._with_pools(route, request)
            if not isinstance(route.audit, str):
                return self._rechecked(self._read(ctx, route, request), route, request)
            recorder = self._recorder(route.audit, route, request)
            request.noted = recorder.saw
            answer = self._answer(ctx.with_recorder(recorder), route, request)
            self._count_write(request)
            return answer
        except Exception as e:
            return self.failed(request, e)

    def shared_by(self, request: Request) -> Route | None:
        """Return the route of a request that may be answered together with others, else None."""
        try:
            route = self._routed(request)
        except errors.ApiError:  # `handle` answers with it
            return None
        return route if route.shared is not None and route.shared.fits(request) else None

    def handle_together(self, route: Route, requests: Sequence[Request]) -> list[Response | None]:
        """Answer requests of a route by common statements; None for each that `handle` must answer alone."""
        assert route.shared is not None
        try:
            admitted = authorization.authorize_together(self.ctx, route, requests)
            newest = max((_pools_of(request) for request in admitted), default=0)
            ctx = stored_pools.at(self.ctx, newest)
            answers = dict(zip(map(id, admitted), route.shared.answers(ctx, admitted), strict=True))
        except DatabaseDown as e:
            return [self.failed(request, e) for request in requests]
        return [answers.get(id(request)) for request in requests]

    def admit(self, request: Request) -> int | Response:
        """Return how large a request's body may be, from the caller that its headers name; or the refusal.

        `request.sender` becomes that caller."""
        try:
            route = self._routed(request)
            if route.admits is not None:  # its URL is the credential, so it has no user
                request.sender = f"address {request.client}"
                return route.admits(request)
            by: Principal | None
            if route.access is Access.AGENT_BY_HANDLER:
                by = authentication.agent_of(self.ctx, bearer_token(request))
            else:
                by = authorization.principal_of(self.ctx, route, request)
            if by is None:
                return STRANGERS_BODY
        except Exception as e:
            return self.failed(request, e)
        request.sender = by.caller
        return route.largest

    def _answer(self, ctx: Context, route: Route, request: Request) -> Answer:
        for _ in range(_TRIES - 1):
            try:
                return route.answer(ctx, request)
            except TryAgain:
                log.info("%s %s collided with another; trying again", request.method, request.path)
        return route.answer(ctx, request)

    def _with_pools(self, route: Route, request: Request) -> Context:
        """Return the context with the pools of the database, in the revision that the caller was read with."""
        if request.principal is None:
            by_handler = route.access is Access.AGENT_BY_HANDLER
            return stored_pools.known(self.ctx, read=by_handler)
        return stored_pools.at(self.ctx, _pools_of(request))

    def _read(self, ctx: Context, route: Route, request: Request) -> Answer:
        """Answer a list or report from the copy of the database, if that has the changes of the caller.

        Tasks read the database itself: they act on the answers."""
        by = request.principal
        if route.from_replica and isinstance(by, User) and by.allocation_id is None:
            replica = self.ctx.replica
            if replica is not None and replica.shows(by.id, by.writes):
                try:
                    return route.answer(replace(ctx, db=replica.database), request)
                except (DatabaseDown, QueryFailed, TryAgain) as e:
                    replica.failed(e)
        return self._answer(ctx, route, request)

    def _count_write(self, request: Request) -> None:
        """Count a change, so that later lists and reports of the user show it."""
        by = request.principal
        if isinstance(by, User) and by.allocation_id is None and self.ctx.replica is not None:
            self.ctx.replica.count_write(self.ctx.db, by.id)

    def _rechecked(self, answer: Answer, route: Route, request: Request) -> Answer:
        """End a stream once its request would be refused: sessions end and rights change while it is open."""
        if not isinstance(answer, Stream) or answer.is_file:
            return answer
        checked, original = self.ctx.now(), replace(request, noted=None)

        def fetch(cursor: object) -> Batch:
            nonlocal checked
            now = self.ctx.now()
            if now - checked >= _CHECKED_EVERY:
                authorization.authorize(self.ctx, route, replace(original))
                checked = now
            return answer.fetch(cursor)

        return replace(answer, fetch=fetch)

    def _recorder(self, action: str, route: Route, request: Request) -> Recorder:
        by = request.principal
        return Recorder(
            self.ctx.now,
            action=action,
            object=audit_object(route.path, request.params),
            address=request.client,
            user=by if isinstance(by, User) else None,
            program=request.headers.get("user-agent", ""),
        )

    def failed(self, request: Request, e: Exception) -> Response:
        """Return the answer to a refusal; any other error is logged under a reference and not shown."""
        if isinstance(e, errors.ApiError):
            return Response(e.to_json(), e.status, headers=e.headers)
        if isinstance(e, DatabaseFull):
            self.ctx.memory.database_health.full_at = self.ctx.now()
        if isinstance(e, QueryFailed) and e.is_of_lock:
            log.warning("%s %s waited too long for a lock: %s", request.method, request.path, e)
            return unavailable(e)
        if isinstance(e, (DatabaseDown, TryAgain, refusals.Busy)):
            return unavailable(e)
        for kind, api_error in _STATUS:
            if isinstance(e, kind):
                translated = api_error(str(e))
                return Response(translated.to_json(), translated.status)
        reference = self.ctx.random.uuid().hex[:12]
        log.exception("%s %s failed (reference %s)", request.method, request.path, reference)
        internal = errors.ApiError(f"internal error; the server's log has it under {reference}")
        return Response(internal.to_json(), internal.status)

    def _routed(self, request: Request) -> Route:
        """Return the route of a request, which then has the parameters of its path."""
        match = self.router.match(request.method, request.path)
        if isinstance(match, Match):
            request.params, request.route = match.params, match.route.path
            return match.route
        if match:
            raise errors.Unimplemented(
                f"{request.path} does not take {request.method}, only {', '.join(sorted(match))}"
            )
        raise errors.NotFound(f"no such path: {request.path}")


def _pools_of(request: Request) -> int:
    return 0 if request.principal is None else request.principal.pools


def unavailable(e: Exception) -> Response:
    """Return the answer to a request that should be sent again, and when."""
    error = errors.Unavailable(str(e))
    after_s = 1 if isinstance(e, (TryAgain, refusals.Busy)) else WAKING_S
    return Response(error.to_json(), error.status, headers={"Retry-After": str(after_s)})


def audit_object(path: str, params: Mapping[str, str]) -> str:
    """Return the object of an audit entry from the route's path: `experiment 12` or `model digits version 3`."""
    parts = path.removeprefix("/api/v1/").strip("/").split("/")
    names = [
        f"{_singular(parts[i - 1])} {params.get(part.strip('{}'), '')}"
        for i, part in enumerate(parts)
        if i and part.startswith("{")
    ]
    return " ".join(names)[:_LONGEST_OBJECT]


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
