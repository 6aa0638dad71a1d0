"""Open a session with a saved token, credentials from the environment, or a prompt.

Passwords are hashed before they leave the machine (docs/reference/compatibility.md#signing-in)."""

import contextlib
import hashlib
import os
import socket
import ssl
from http.client import HTTPResponse
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Tuple

from determined.common.certificates import TrustStore
from determined.common.failures import Failure
from determined.common.http import (
    Absence,
    ForbiddenError,
    Session,
    SignInFailed,
    UnauthenticatedError,
)
from determined.common.token_store import TokenStore

DEFAULT_USER = "determined"
Ask = Callable[[str], str]

_SALT = "GubPEmmotfiK9TMD6Zdw"


def open_session(
    master: str,
    headers: Optional[Mapping[str, str]] = None,
    *,
    cert_file: Optional[str] = None,
    cert_name: Optional[str] = None,
    verify: bool = True,
    absence: Optional[Absence] = None,
) -> Session:
    """Open a session without credentials.

    The trusted certificate is `cert_file`, or the environment's, or the one that the user trusted before."""
    cert = cert_file or os.environ.get("DET_MASTER_CERT_FILE") or None
    if cert and cert != "noverify" and master.startswith("https:"):
        _require_certificates(cert)
    pinned = (
        TrustStore(master).trusted()
        if verify and cert is None and master.startswith("https:")
        else None
    )
    return Session(
        master,
        {"User-Agent": _program(), **(headers or {})},
        cert_file=None if cert == "noverify" else cert,
        verify=verify and cert != "noverify",
        server_hostname=cert_name or os.environ.get("DET_MASTER_CERT_NAME") or None,
        fingerprint=pinned,
        patient_at_first=False,
        absence=absence,
    )


def _require_certificates(path: str) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except OSError as e:
        why = "it has no certificate in PEM" if isinstance(e, ssl.SSLError) else e.strerror
        raise Failure(
            f"cannot use the certificates in {path}: {why}",
            "DET_MASTER_CERT_FILE names a file with the cluster's certificate, or is `noverify`",
        ) from e


def _program() -> str:
    """Return the name of this program. Users see it in their list of sessions."""
    import determined

    name = f"Determined client {determined.__version__}"
    host = socket.gethostname().encode("ascii", "ignore").decode()
    return f"{name} on {host}" if host else name


def login(anonymous: Session, username: str, password: str) -> str:
    """Exchange a password for a token."""
    body = {"username": username, "password": salt_password(password), "isHashed": True}
    answer = anonymous.post("/api/v1/auth/login", body)
    return str(answer["token"])


def sign_in(
    anonymous: Session,
    store: TokenStore,
    *,
    username: Optional[str] = None,
    password: Optional[str] = None,
    ask: Optional[Ask] = None,
) -> "SignedIn":
    """Sign in as `username`, or as the user in the environment or in the store."""
    token = os.environ.get("DET_USER_TOKEN")
    if token and password is None and username in (None, os.environ.get("DET_USER")):
        return SignedIn(
            anonymous,
            username or os.environ.get("DET_USER") or "",
            token,
            variable="DET_USER_TOKEN",
        )
    allocation = os.environ.get("DET_SESSION_TOKEN")
    if allocation and username is None and password is None:
        return SignedIn(
            anonymous,
            os.environ.get("DET_USER") or "",
            None,
            allocation,
            variable="DET_SESSION_TOKEN",
        )
    who = username or os.environ.get("DET_USER") or store.active_user() or DEFAULT_USER
    entry = _SignInMethods(anonymous, store, who, password, ask)
    cached = store.token(who) if password is None else None
    return SignedIn(anonymous, who, cached or entry.fresh_token(), renew=entry.fresh_token)


class _SignInMethods:
    """The ways to get a new token for a user, in the order in which they are tried."""

    def __init__(
        self,
        anonymous: Session,
        store: TokenStore,
        username: str,
        password: Optional[str],
        ask: Optional[Ask],
    ) -> None:
        self._anonymous = anonymous
        self._store = store
        self._username = username
        self._password = password
        self._ask = ask

    def fresh_token(self) -> str:
        token = self._from_known_password() or self._from_empty_password() or self._from_person()
        self._store.keep(self._username, token)
        return token

    def _from_known_password(self) -> Optional[str]:
        password = self._password
        if password is None:
            password = os.environ.get("DET_PASS")
        if password is None:
            return None
        try:
            return login(self._anonymous, self._username, password)
        except (UnauthenticatedError, ForbiddenError) as e:
            raise refused(self._username, password, e) from e

    def _from_empty_password(self) -> Optional[str]:
        if self._username != DEFAULT_USER:
            return None
        try:
            return login(self._anonymous, self._username, "")
        except UnauthenticatedError:
            return None

    def _from_person(self) -> str:
        if self._ask is None:
            raise SignInFailed(
                f"user '{self._username}' is not signed in to {self._anonymous.base_url}",
                f"run `det user login {self._username}`, or set DET_USER and DET_PASS",
            )
        try:
            password = self._ask(self._username)
            return login(self._anonymous, self._username, password)
        except (UnauthenticatedError, ForbiddenError) as e:
            raise refused(self._username, password, e) from e


def refused(username: str, password: str, error: Exception) -> SignInFailed:
    """Return the error for a failed sign-in. It names the variables that set the user and the password."""
    credentials = {"DET_USER": username, "DET_PASS": password}
    variables = [name for name, value in credentials.items() if os.environ.get(name) == value]
    where = f" in {' and '.join(variables)}" if variables else ""
    return SignInFailed(
        f"the cluster refused user '{username}': {error}",
        f"check the name and the password{where}; an administrator can set a new one with"
        f" `det user change-password {username}`",
    )


class SignedIn(Session):
    """A session with a user's token. It renews the token once if the cluster rejects it."""

    def __init__(
        self,
        anonymous: Session,
        username: str,
        token: Optional[str],
        allocation_token: Optional[str] = None,
        renew: Optional[Callable[[], str]] = None,
        *,
        variable: str = "",
    ) -> None:
        token_headers = _token_headers(token, allocation_token)
        super().__init__(
            anonymous.base_url, {**anonymous.headers, **token_headers}, **anonymous.options
        )
        self.username = username
        self.token = token
        self._renew = renew
        self._variable = variable

    def request_bytes(self, method: str, path: str, **kw: Any) -> Tuple[int, Dict[str, str], bytes]:
        answer = super().request_bytes(method, path, **kw)
        if answer[0] == 401 and self._renew_token():
            answer = super().request_bytes(method, path, **kw)
        return answer

    @contextlib.contextmanager
    def response(self, method: str, path: str, **kw: Any) -> Iterator[HTTPResponse]:
        with contextlib.ExitStack() as stack:
            try:
                answer = stack.enter_context(super().response(method, path, **kw))
            except UnauthenticatedError:
                if not self._renew_token():
                    raise
                answer = stack.enter_context(super().response(method, path, **kw))
            yield answer

    def _renew_token(self) -> bool:
        if self._variable:
            raise UnauthenticatedError(
                401,
                f"{self._variable} holds a token that is unknown to the cluster or has expired: set it"
                " to another one, or unset it to act as the user of `det user login`",
            )
        if self._renew is None:
            return False
        renew, self._renew = self._renew, None
        self.token = renew()
        self.headers.update(_token_headers(self.token, None))
        return True


def _token_headers(token: Optional[str], allocation_token: Optional[str]) -> Dict[str, str]:
    headers = {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if allocation_token:
        headers["Grpc-Metadata-x-allocation-token"] = f"Bearer {allocation_token}"
    return headers


def salt_password(password: str) -> str:
    """Return the digest that servers expect with `isHashed`. The empty password stays empty."""
    if not password:
        return ""
    return hashlib.sha512((_SALT + password).encode()).hexdigest()


def password_weakness(password: str) -> Optional[str]:
    """Return the reason why a new password is rejected, or None."""
    if len(password) < 8:
        return "a password needs at least 8 characters"
    missing = [
        name
        for name, present in (
            ("an upper-case letter", any(c.isupper() for c in password)),
            ("a lower-case letter", any(c.islower() for c in password)),
            ("a digit", any(c.isdigit() for c in password)),
        )
        if not present
    ]
    return f"a password needs {' and '.join(missing)}" if missing else None
