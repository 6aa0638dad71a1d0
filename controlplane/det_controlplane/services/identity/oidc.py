"""Sign people in by the identity provider of their organization (OIDC): in a browser, or with a code of a device.

This is the provider's client, so that its secret stays here; the command line carries codes between the two.
Nothing is stored meanwhile: the verifier that the command line keeps (PKCE) ties a sign-in together."""

import base64
import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from det_controlplane.core.config.sign_in import SignInProvider
from det_controlplane.ports.compute import Unreachable
from det_controlplane.ports.identity import Issuers, IssuersBusy, NotProven, TokenVerifier
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Busy, Invalid, NotSignedIn, Unready
from det_controlplane.services.identity import remote_users
from det_controlplane.services.identity.remote_users import IdentityClaims
from det_controlplane.services.identity.sign_in import (
    count_attempt,
    forget_attempts,
    refuse_early_attempt,
)

T = TypeVar("T")
log = logging.getLogger("det.identity")
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_HERE = ("127.0.0.1", "::1", "localhost")
_WORD = re.compile(
    r"[A-Za-z0-9._~-]{43,128}"
)  # what PKCE allows for verifiers; states are held to it, too
_PENDING = ("authorization_pending", "slow_down")
_LONGEST_CODE = 4096
_SIGN_IN_PAGE = "/det/sign-in"
# Accounts that count attempts; no user has such a name. Codes from browsers are not counted, because they cannot be
# guessed, and a stranger behind the same proxy would block the sign-in of all users.
_DEVICES_BEGUN, _DEVICES_REFUSED = "(codes for devices)", "(refused codes of devices)"


@dataclass(frozen=True, slots=True)
class SignedIn:
    token: str
    user_id: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class _Client:
    """The cluster as its identity provider knows it."""

    settings: SignInProvider
    issuers: Issuers
    tokens: TokenVerifier

    def endpoint(self, name: str) -> str:
        described = _ask_provider(
            self.settings, lambda: self.issuers.described(self.settings.issuer)
        )
        address = str(described.get(name) or "")
        if not address:
            raise Invalid(f"{self.settings.provider} offers no {name.replace('_', ' ')}")
        return address

    def posted(self, endpoint: str, form: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        url, settings = self.endpoint(endpoint), self.settings
        fields = {**form, "client_id": settings.client_id}
        secret = None
        if settings.client_secret and self._takes_basic():
            secret = (settings.client_id, settings.client_secret)
        elif settings.client_secret:
            fields["client_secret"] = settings.client_secret
        return _ask_provider(
            settings, lambda: self.issuers.posted(settings.issuer, url, fields, secret)
        )

    def verified(self, token: str) -> Mapping[str, Any]:
        settings = self.settings
        trusted = {settings.issuer: [settings.client_id]}
        claims = _ask_provider(settings, lambda: self.tokens.verified(token, trusted))
        if claims.get("azp", settings.client_id) != settings.client_id:
            raise NotSignedIn("the identity token was made for another client")
        return claims

    def _takes_basic(self) -> bool:
        described = _ask_provider(
            self.settings, lambda: self.issuers.described(self.settings.issuer)
        )
        methods = described.get("token_endpoint_auth_methods_supported")
        return "client_secret_basic" in (methods or ("client_secret_basic",))


def providers(ctx: Context) -> list[dict[str, Any]]:
    provider = ctx.config.oidc
    return [] if provider is None else [{"name": provider.provider, "type": "OIDC"}]


def begin(ctx: Context, redirect_uri: str, challenge: str, state: str, public_url: str = "") -> str:
    """Return the URL at which a user signs in. The provider redirects the browser to `redirect_uri`.

    `public_url` is the address of the request, for clusters without a configured address."""
    client = _client(ctx)
    _check_redirect(ctx.host.public_url or public_url, redirect_uri)
    if not _WORD.fullmatch(challenge) or not _WORD.fullmatch(state):
        raise Invalid("codeChallenge and state must have 43 to 128 letters and digits")
    query = {
        "response_type": "code", "client_id": client.settings.client_id, "redirect_uri": redirect_uri,
        "scope": " ".join(client.settings.scopes), "state": state, "nonce": _nonce(challenge),
        "code_challenge": challenge, "code_challenge_method": "S256",
    }  # fmt: skip
    address = client.endpoint("authorization_endpoint")
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"


def finish(
    ctx: Context, code: str, verifier: str, redirect_uri: str, public_url: str = ""
) -> SignedIn:
    """Exchange the code that the browser brought."""
    client = _client(ctx)
    _check_redirect(ctx.host.public_url or public_url, redirect_uri)
    if not _WORD.fullmatch(verifier) or not 0 < len(code) <= _LONGEST_CODE:
        raise Invalid("code and codeVerifier are required, as the sign-in began with them")
    form = {
        "grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }  # fmt: skip
    status, response = client.posted("token_endpoint", form)
    if status != 200:
        raise NotSignedIn(f"{client.settings.provider} refuses the sign-in: {_cause(response)}")
    claims = client.verified(str(response.get("id_token", "")))
    if claims.get("nonce") != _nonce(_digest(verifier.encode())):
        raise NotSignedIn("the identity token was made for another sign-in: begin again")
    return _admit_person(ctx, client.settings, claims)


def begin_device(ctx: Context, address: str = "") -> dict[str, Any]:
    """Return the code that a person types at the provider, and how this device asks whether that was done."""
    client = _client(ctx)
    count_attempt(ctx, _DEVICES_BEGUN, address, ctx.now())
    form = {"scope": " ".join(client.settings.scopes)}
    status, response = client.posted("device_authorization_endpoint", form)
    if status != 200 or not response.get("device_code"):
        raise Unready(f"{client.settings.provider} gives no code for a device: {_cause(response)}")
    return {
        "deviceCode": response["device_code"], "userCode": response.get("user_code", ""),
        # Google spells it otherwise.
        "verificationUri": response.get("verification_uri") or response.get("verification_url", ""),
        "verificationUriComplete": response.get("verification_uri_complete", ""),
        "interval": response.get("interval", 5), "expiresIn": response.get("expires_in", 600),
    }  # fmt: skip


def finish_device(ctx: Context, device_code: str, address: str = "") -> SignedIn | str:
    """Sign in once the person has typed the code; until then return why not yet."""
    client = _client(ctx)
    if not 0 < len(device_code) <= _LONGEST_CODE:
        raise Invalid("deviceCode is required, as the sign-in began with it")
    refuse_early_attempt(ctx, _DEVICES_REFUSED, address, ctx.now())
    form = {"grant_type": _DEVICE_GRANT, "device_code": device_code}
    status, response = client.posted("token_endpoint", form)
    if status != 200 and response.get("error") in _PENDING:
        return str(response["error"])
    if status != 200:
        count_attempt(ctx, _DEVICES_REFUSED, address, ctx.now())
        raise NotSignedIn(f"{client.settings.provider} refuses the sign-in: {_cause(response)}")
    session = _admit_person(
        ctx, client.settings, client.verified(str(response.get("id_token", "")))
    )
    for account in (_DEVICES_BEGUN, _DEVICES_REFUSED):
        forget_attempts(ctx, account, address)
    return session


def _admit_person(ctx: Context, settings: SignInProvider, claims: Mapping[str, Any]) -> SignedIn:
    person = IdentityClaims.of(claims, settings)
    expires_at = ctx.now() + timedelta(seconds=settings.session)
    token, user_id = remote_users.sign_in(ctx, person, settings, expires_at)
    log.info("%s signed in at %s", person.username, settings.issuer)
    return SignedIn(token, user_id, expires_at)


def _client(ctx: Context) -> _Client:
    if ctx.config.oidc is None or ctx.verifiers.issuers is None or ctx.verifiers.tokens is None:
        raise Invalid(
            "this cluster knows no identity provider: `security.oidc` of its configuration names one;"
            " 'det user login' signs in by password"
        )
    return _Client(ctx.config.oidc, ctx.verifiers.issuers, ctx.verifiers.tokens)


def _ask_provider(settings: SignInProvider, ask: Callable[[], T]) -> T:
    """Call the provider. Errors are messages for the user who signs in."""
    try:
        return ask()
    except NotProven as e:
        raise NotSignedIn(f"the identity token is not accepted: {e}") from e
    except IssuersBusy as e:
        raise Busy(f"{settings.provider} is being asked by others: {e}") from e
    except Unreachable as e:
        raise Unready(f"{settings.provider} does not answer as it should: {e}") from e


def _check_redirect(public_url: str, uri: str) -> None:
    """Send codes to programs on the person's own machine, and to our own page, only."""
    if public_url and uri == f"{public_url.rstrip('/')}{_SIGN_IN_PAGE}":
        return
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme != "http" or parts.hostname not in _HERE or not port or parts.username:
        raise Invalid(
            "redirectUri must be http://127.0.0.1:PORT/… on the machine of the browser, or the sign-in page of this cluster"
        )


def _nonce(challenge: str) -> str:
    """Return a nonce that ties the identity token to the verifier, so that no state is stored."""
    return _digest(b"nonce:" + challenge.encode())


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _cause(response: Mapping[str, Any]) -> str:
    message = response.get("error_description") or response.get("error") or "no reason given"
    return str(message)[:200]
