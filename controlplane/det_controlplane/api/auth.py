"""Signing in and out, and routes that any signed-in user may call."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from det_controlplane.api.answers import OneUser, SignedIn
from det_controlplane.api.errors import Unauthenticated
from det_controlplane.api.http import (
    EMPTY,
    Answer,
    Request,
    Response,
    asks_this_machine,
    json_response,
    session_cookie,
)
from det_controlplane.api.router import Access, Handler, get, post
from det_controlplane.core.people.permissions import TaskRule, require
from det_controlplane.services.context import Context
from det_controlplane.services.identity import pipelines, sign_in
from det_controlplane.services.organization import users
from det_controlplane.services.principal import User


@dataclass(frozen=True)
class Credentials:
    username: str = ""
    password: str = ""
    is_hashed: bool = False


@dataclass(frozen=True)
class PipelineToken:
    token: str = ""


def login(ctx: Context, request: Request, body: Credentials) -> Answer:
    if not (body.password or ctx.host.public or asks_this_machine(request)):
        raise Unauthenticated(
            "accounts without a password are open to this machine only: ask it as localhost, or give them one"
        )
    token, user_id = sign_in.login(
        ctx, body.username, body.password, body.is_hashed, request.client
    )
    answer = json_response({"token": token, "user": users.get(ctx, user_id)})
    life_s = int(sign_in.SESSION_LIFE.total_seconds())
    return Response(answer.body, headers=session_cookie(request, token, life_s))


def login_pipeline(ctx: Context, request: Request, body: PipelineToken) -> Answer:
    token, user_id, expires_at = pipelines.sign_in(ctx, body.token)
    return json_response(
        {"token": token, "user": users.get(ctx, user_id), "expiresAt": expires_at.isoformat()}
    )


def logout(ctx: Context, request: Request) -> Answer:
    sign_in.logout(ctx, user_of(request))
    return Response(headers=session_cookie(request, "", 0))


def me(ctx: Context, request: Request) -> Answer:
    return json_response({"user": users.get(ctx, user_of(request).id)})


def user_of(request: Request) -> User:
    assert isinstance(request.principal, User)
    return request.principal


def request_key(request: Request) -> str | None:
    """Return a key that is the same for repetitions of this request: of its idempotency key, user and body."""
    key = request.headers.get("idempotency-key")
    if not key:
        return None
    identity = f"{user_of(request).id}\n{request.method} {request.path}\n{key}\n".encode()
    return hashlib.sha256(identity + request.body).hexdigest()


def setting(change: Callable[[Context, User, int, bool], None], value: bool) -> Handler:
    """Return a handler that sets a flag of the object with the id in the path."""

    def handler(ctx: Context, request: Request) -> Answer:
        change(ctx, user_of(request), request.id("id"), value)
        return EMPTY

    return handler


ROUTES = (
    post(
        "/api/v1/auth/login",
        login,
        response=SignedIn,
        access=Access.PUBLIC,
        summary="Sign in",
        audit="auth.login",
    ),
    post(
        "/api/v1/auth/pipeline",
        login_pipeline,
        access=Access.PUBLIC,
        summary="Sign in by the token that a CI service gave a pipeline",
        audit="auth.pipeline",
    ),
    post(
        "/api/v1/auth/logout",
        logout,
        summary="End this session",
        rule=require(task=TaskRule.AS_OWNER),
        audit="auth.logout",
    ),
    get(
        "/api/v1/auth/user",
        me,
        response=OneUser,
        summary="The user of this session",
        rule=require(task=TaskRule.READ),
    ),
    get(
        "/api/v1/me",
        me,
        response=OneUser,
        summary="The user of this session",
        rule=require(task=TaskRule.READ, own=True),
    ),
)
