"""Signing in at the identity provider of an organization: by a browser here, or by a code typed elsewhere."""

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
_SLOW_DOWN_S = 5  # what a provider that is asked too often wants to be added (RFC 8628)


def list_providers(args: argparse.Namespace) -> None:
    columns = (("Name", lambda p: p["name"]), ("Type", lambda p: p["type"]))
    show(args, columns, _providers(anonymous(args)))


def login(args: argparse.Namespace) -> None:
    session = anonymous(args)
    provider = _chosen(args, _providers(session))
    told = _by_device(session) if args.headless else _by_browser(session, args.port, provider)
    store, username = TokenStore(address(args)), told["user"]["username"]
    store.keep(username, told["token"], activate=True)
    say(f"Signed in to {store.master} as {username}, until {told['expiresAt']}.")


def _providers(session: Session) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = session.get(f"{_OIDC}/providers")["providers"]
    return found


def _chosen(args: argparse.Namespace, providers: list[dict[str, Any]]) -> str:
    names = [p["name"] for p in providers]
    if not names:
        raise CommandError(
            "this cluster knows no identity provider", "`det user login` signs in by password"
        )
    if args.provider not in (None, *names):
        raise UsageError(f"there is no provider '{args.provider}'", f"use {' or '.join(names)}")
    return str(args.provider or names[0])


def _by_browser(session: Session, port: int, provider: str) -> dict[str, Any]:
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    with BrowserReturn(port, state) as returning:
        asked = {"redirectUri": returning.uri, "codeChallenge": challenge, "state": state}
        url = session.post(f"{_OIDC}/begin", asked)["authorizationUrl"]
        opened = open_browser(url)
        say(f"Sign in at {provider} in {'the browser that opens' if opened else 'a browser'}:")
        say(url)
        code = returning.code(_BROWSER_S)
        asked = {"code": code, "codeVerifier": verifier, "redirectUri": returning.uri}
        told: dict[str, Any] = session.post(f"{_OIDC}/finish", asked)
    return told


def _by_device(session: Session) -> dict[str, Any]:
    began = session.post(f"{_OIDC}/device/begin")
    say(f"Open {began['verificationUri']} on any device, and type {began['userCode']}")
    if began["verificationUriComplete"]:
        say(f"or open {began['verificationUriComplete']}")
    interval, deadline = int(began["interval"]), monotonic() + int(began["expiresIn"])
    while monotonic() < deadline:
        sleep(interval)
        asked = {"deviceCode": began["deviceCode"]}
        told: dict[str, Any] = session.post(f"{_OIDC}/device/finish", asked)
        if "token" in told:
            return told
        if told["pending"] == "slow_down":
            interval += _SLOW_DOWN_S
    raise CommandError("the code was not typed in time", "sign in again")
