"""Send requests to the issuers of OIDC tokens: for their configuration, their keys and tokens."""

import base64
import http.client
import json
import threading
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from det_controlplane.core.config.pipelines import is_safe
from det_controlplane.ports.compute import Unreachable
from det_controlplane.ports.identity import IssuersBusy

_TIMEOUT_S = 10.0
_MOST_BYTES = 256 * 1024
# Anonymous users can start a sign-in. This limits the API's threads that wait for issuers. Further requests fail at
# once.
_AT_ONCE = 4
_turns = threading.BoundedSemaphore(_AT_ONCE)


def describe(issuer: str) -> dict[str, Any]:
    """Return the discovery document of an issuer. Raises Unreachable."""
    described = _object(_request(f"{issuer}/.well-known/openid-configuration", issuer), issuer)
    if str(described.get("issuer", "")).rstrip("/") != issuer:
        raise Unreachable(f"{issuer} describes another issuer: {described.get('issuer')!r}")
    return described


def fetch_keys(issuer: str) -> dict[str, Any]:
    """Return an issuer's key set. The discovery document contains its URL. Raises Unreachable."""
    url = str(describe(issuer).get("jwks_uri", ""))
    return _object(_request(url, issuer), url)


def post_form(
    issuer: str, url: str, form: Mapping[str, str], secret: tuple[str, str] | None
) -> tuple[int, dict[str, Any]]:
    """Post a form to an endpoint of an issuer with the client's credentials. Return the status and the answer."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if secret is not None:
        pair = ":".join(quote(part, safe="") for part in secret)
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    answer = _request(url, issuer, urlencode(form).encode(), headers)
    return answer[0], _object(answer, url, any_status=True)


def _request(
    url: str, issuer: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    if not is_safe(url):
        raise Unreachable(f"{url!r} is no https address")
    if not _turns.acquire(blocking=False):
        raise IssuersBusy("too many sign-ins at once: try again in a moment")
    try:
        return _send_request(url, issuer, body, headers or {})
    except (OSError, http.client.HTTPException, ValueError) as e:
        raise Unreachable(f"{url} cannot be read: {e}") from e
    finally:
        _turns.release()


def _send_request(
    url: str, issuer: str, body: bytes | None, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    """Send one request. Redirects are not followed, because they could lead to any address."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    try:
        connection.connect()
        if parts.hostname != urlsplit(issuer).hostname:
            _refuse_private(str(connection.sock.getpeername()[0]), url)
        target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        all_headers = {"Accept": "application/json", **headers}
        connection.request("GET" if body is None else "POST", target, body, all_headers)
        answer = connection.getresponse()
        return answer.status, answer.read(_MOST_BYTES)
    finally:
        connection.close()


def _refuse_private(address: str, url: str) -> None:
    """Raise Unreachable if an issuer refers to a private address of another host."""
    if not ip_address(address.partition("%")[0]).is_global:
        raise Unreachable(
            f"{url} has the private address {address}, and another name than its issuer"
        )


def _object(answer: tuple[int, bytes], url: str, *, any_status: bool = False) -> dict[str, Any]:
    status, content = answer
    if status != 200 and not any_status:
        raise Unreachable(f"{url} cannot be read: it answers {status}")
    try:
        document = json.loads(content)
    except ValueError as e:
        raise Unreachable(f"{url} does not answer with JSON, but {status}") from e
    if not isinstance(document, dict):
        raise Unreachable(f"{url} does not hold an object")
    return document
