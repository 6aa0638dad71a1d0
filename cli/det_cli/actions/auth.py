"""`det auth`: sign in at an identity provider, with a local browser or with a code on another device."""

import argparse
import base64
import hashlib
import secrets
from time import monotonic, sleep
from typing import Any

from determined.common.http import Session
from determined.common.token_store import TokenStore

from det_cli.browser_return import BrowserReturn, open_browser
from det_cli.connection import V1, address, anonymous
from det_cli.errors import CommandError, UsageError
from det_cli.render import say, show

_OIDC = V1 + "/auth/oidc"
_BROWSER_S = 300
_SLOW_DOWN_S = 5  # added to the interval after a `slow_down` response (RFC 8628)


def list_providers(args: argparse.Namespace) -> None:
    columns = (("Name", lambda p: p["name"]), ("Type", lambda p: p["type"]))
    show(args, columns, _providers(anonymous(args)))


def login(args: argparse.Namespace) -> None:
    session = anonymous(args)
    provider = _provider_name(args, _providers(session))
    response = _by_device(session) if args.headless else _by_browser(session, args.port, provider)
    store, username = TokenStore(address(args)), response["user"]["username"]
    store.keep(username, response["token"], activate=True)
    say(f"Signed in to {store.master} as {username}, until {response['expiresAt']}.")


def _providers(session: Session) -> list[dict[str, Any]]:
    providers: list[dict[str, Any]] = session.get(f"{_OIDC}/providers")["providers"]
    return providers


def _provider_name(args: argparse.Namespace, providers: list[dict[str, Any]]) -> str:
    names = [p["name"] for p in providers]
    if not names:
        raise CommandError(
            "this cluster has no identity provider", "`det user login` signs in with a password"
        )
    if args.provider not in (None, *names):
        raise UsageError(f"there is no provider '{args.provider}'", f"use {' or '.join(names)}")
    return str(args.provider or names[0])


def _by_browser(session: Session, port: int, provider: str) -> dict[str, Any]:
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    with BrowserReturn(port, state) as redirect:
        body = {"redirectUri": redirect.uri, "codeChallenge": challenge, "state": state}
        url = session.post(f"{_OIDC}/begin", body)["authorizationUrl"]
        opened = open_browser(url)
        say(f"Sign in at {provider} in {'the browser that opens' if opened else 'a browser'}:")
        say(url)
        code = redirect.code(_BROWSER_S)
        body = {"code": code, "codeVerifier": verifier, "redirectUri": redirect.uri}
        response: dict[str, Any] = session.post(f"{_OIDC}/finish", body)
    return response


def _by_device(session: Session) -> dict[str, Any]:
    device = session.post(f"{_OIDC}/device/begin")
    say(f"Open {device['verificationUri']} on any device and enter the code {device['userCode']}")
    if device["verificationUriComplete"]:
        say(f"or open {device['verificationUriComplete']}")
    interval, deadline = int(device["interval"]), monotonic() + int(device["expiresIn"])
    while monotonic() < deadline:
        sleep(interval)
        body = {"deviceCode": device["deviceCode"]}
        response: dict[str, Any] = session.post(f"{_OIDC}/device/finish", body)
        if "token" in response:
            return response
        if response["pending"] == "slow_down":
            interval += _SLOW_DOWN_S
    raise CommandError("the code was not entered in time", "sign in again")
