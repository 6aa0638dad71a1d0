"""Signing in at the identity provider of an organization; the command line carries codes between the two."""

from dataclasses import dataclass

from det_controlplane.api.http import Answer, Request, Response, json_response, session_cookie
from det_controlplane.api.router import Access, Unaudited, get, post
from det_controlplane.services.context import Context
from det_controlplane.services.identity import oidc
from det_controlplane.services.identity.oidc import SignedIn
from det_controlplane.services.organization import users


def list_providers(ctx: Context, request: Request) -> Answer:
    return json_response({"providers": oidc.providers(ctx)})


@dataclass(frozen=True)
class SignInRequest:
    redirect_uri: str = ""
    code_challenge: str = ""
    state: str = ""


@dataclass(frozen=True)
class SignInCode:
    code: str = ""
    code_verifier: str = ""
    redirect_uri: str = ""


@dataclass(frozen=True)
class DeviceCode:
    device_code: str = ""


def begin(ctx: Context, request: Request, body: SignInRequest) -> Answer:
    address = oidc.begin(
        ctx, body.redirect_uri, body.code_challenge, body.state, request.public_url
    )
    return json_response({"authorizationUrl": address})


def finish(ctx: Context, request: Request, body: SignInCode) -> Answer:
    session = oidc.finish(ctx, body.code, body.code_verifier, body.redirect_uri, request.public_url)
    answer = _signed_in(ctx, session)
    life_s = int((session.expires_at - ctx.now()).total_seconds())
    return Response(answer.body, headers=session_cookie(request, session.token, life_s))


def begin_device(ctx: Context, request: Request) -> Answer:
    return json_response(oidc.begin_device(ctx, request.client))


def finish_device(ctx: Context, request: Request, body: DeviceCode) -> Answer:
    outcome = oidc.finish_device(ctx, body.device_code, request.client)
    if isinstance(outcome, str):
        return json_response({"pending": outcome})
    return _signed_in(ctx, outcome)


def _signed_in(ctx: Context, session: SignedIn) -> Response:
    expires_at, user = session.expires_at.isoformat(), users.get(ctx, session.user_id)
    return json_response({"token": session.token, "user": user, "expiresAt": expires_at})


_O = "/api/v1/auth/oidc"
ROUTES = (
    get(
        f"{_O}/providers",
        list_providers,
        access=Access.PUBLIC,
        summary="The identity providers of this cluster",
    ),
    post(
        f"{_O}/begin",
        begin,
        access=Access.PUBLIC,
        summary="Where a person signs in by a browser",
        audit=Unaudited.NO_CHANGE,
    ),
    post(
        f"{_O}/finish",
        finish,
        access=Access.PUBLIC,
        summary="Sign in by the code that a browser brought",
        audit="auth.oidc.finish",
    ),
    post(
        f"{_O}/device/begin",
        begin_device,
        access=Access.PUBLIC,
        summary="A code to sign in with on another device",
        audit=Unaudited.NO_CHANGE,
    ),
    post(
        f"{_O}/device/finish",
        finish_device,
        access=Access.PUBLIC,
        summary="Sign in once the code was typed on the other device",
        audit="auth.oidc.device.finish",
    ),
)
