"""Select the headers that are forwarded to a task and back. Tasks share the origin of the API."""

from collections.abc import Iterable
from urllib.parse import parse_qsl

from det_controlplane.api.errors import BadRequest
from det_controlplane.services.tasks.proxying import RequestTokens

Headers = list[tuple[bytes, bytes]]
KEPT_COOKIE = "det-task-token"
_OURS = ("auth", KEPT_COOKIE)
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" transfer-encoding upgrade expect".split()
)
_ALLOCATION = b"grpc-metadata-x-allocation-token"
# Headers by which a page could control the whole origin, including the API's data.
_NOT_FOR_A_TASK = frozenset(
    (
        b"clear-site-data",
        b"service-worker-allowed",
        b"strict-transport-security",
        b"public-key-pins",
        b"nel",
        b"report-to",
        b"alt-svc",
    )
)
# Each value is looked for in the database.
_MOST_SESSIONS = 8
# Other sites cannot frame the page, and a later user of the browser does not see it from a cache.
_OF_EVERY_ANSWER = (
    (b"content-security-policy", b"frame-ancestors 'self'"),
    (b"vary", b"Cookie"),
)


def tokens_of(headers: Headers, query: bytes) -> RequestTokens:
    """Find the tokens of a request."""
    scheme, _, credentials = _first(headers, b"authorization").partition(" ")
    allocation = _first(headers, _ALLOCATION)
    cookies = _cookies(headers)
    sessions = tuple(dict.fromkeys(v for n, v in cookies if n == "auth" and v))
    if len(sessions) > _MOST_SESSIONS:
        raise BadRequest(
            f"the request has {len(sessions)} cookies 'auth': clear those of this site"
        )
    in_address = next((v for n, v in parse_qsl(query.decode("latin-1")) if n == "token"), "")
    if scheme.lower() == "token":
        in_address = credentials.strip() or in_address
    return RequestTokens(
        bearer=credentials.strip() if scheme.lower() == "bearer" else "",
        allocation=allocation.partition(" ")[2].strip() if allocation else "",
        cookies=sessions,
        in_address=in_address,
        kept=dict(cookies).get(KEPT_COOKIE, ""),
    )


def is_of_another_site(kind: str, method: str, headers: Headers) -> bool:
    """Return whether a page of another site sends a request to a task or embeds an answer.

    Browsers omit the cookie in such requests, so the user of the answer's scripts would be unknown. Links from other
    sites include the cookie. Other sites cannot send the headers of tokens without a preflight request."""
    scheme = _first(headers, b"authorization").partition(" ")[0].lower()
    if scheme in ("bearer", "token") or _first(headers, _ALLOCATION):
        return False
    origin = _first(headers, b"origin")
    if origin and origin.partition("://")[2] != _first(headers, b"host"):
        return True
    # Browsers differ in their headers for websockets, but all send the origin.
    if kind == "websocket" or _first(headers, b"sec-fetch-site") in ("", "same-origin", "none"):
        return False
    is_link = method in ("GET", "HEAD") and _first(headers, b"sec-fetch-dest") == "document"
    return not is_link


def is_service_worker(headers: Headers) -> bool:
    """Return whether a browser requests a service worker, which could answer for the task for later users."""
    return any(name.lower() == b"service-worker" for name, _ in headers)


def towards_task(headers: Headers, *, bearer_is_ours: bool) -> Headers:
    """Remove headers of the connection to this process, and tokens of the API."""
    connection_headers = _named_by_connection(headers)
    task_headers = []
    for name, value in headers:
        low = name.lower()
        if (
            low in _HOP_BY_HOP
            or low in connection_headers
            or low == _ALLOCATION
            or low == b"cookie"
        ):
            continue
        if low == b"authorization" and bearer_is_ours:
            continue
        task_headers.append((name, value))
    cookies = "; ".join(f"{n}={v}" for n, v in _cookies(headers) if n not in _OURS)
    return [*task_headers, (b"cookie", cookies.encode("latin-1"))] if cookies else task_headers


def restore_host(headers: Headers, public_host: str) -> Headers:
    """Restore the host that the browser requested, in a request that an API of the cluster forwarded.

    Pages of other sites cannot send this header, and other programs can send any host anyway."""
    host = _first(headers, b"x-forwarded-host")
    if not public_host or host != public_host:
        return headers
    others = [(name, value) for name, value in headers if name.lower() != b"host"]
    return [*others, (b"host", public_host.encode("latin-1"))]


def towards_relay(headers: Headers, relay_host: str, scheme: str) -> Headers:
    """Remove headers of the connection to this process, and add the client's address and scheme for the relay."""
    connection_headers, host = _named_by_connection(headers), _first(headers, b"host")
    ours = (b"host", b"x-forwarded-host")
    relay_headers = [
        (name, value)
        for name, value in headers
        if (low := name.lower()) not in _HOP_BY_HOP
        and low not in connection_headers
        and low not in ours
    ]
    if not _first(headers, b"x-forwarded-proto"):
        secure = scheme in ("https", "wss")
        relay_headers.append((b"x-forwarded-proto", b"https" if secure else b"http"))
    host_headers = [(b"host", relay_host.encode()), (b"x-forwarded-host", host.encode("latin-1"))]
    return [*relay_headers, *host_headers]


def from_relay(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Remove headers of the connection to the relay. The relay has prepared the others for the client."""
    all_headers = list(headers)
    connection_headers = _named_by_connection(all_headers)
    return [
        (n, v)
        for n, v in all_headers
        if n.lower() not in _HOP_BY_HOP and n.lower() not in connection_headers
    ]


def from_task(headers: Iterable[tuple[bytes, bytes]], service: str) -> Headers:
    """Remove headers of the connection to the task. Restrict cookies to the task's paths and frames to this site."""
    all_headers = list(headers)
    connection_headers = _named_by_connection(all_headers)
    client_headers = []
    for name, value in all_headers:
        low = name.lower()
        if low in _HOP_BY_HOP or low in connection_headers or low in _NOT_FOR_A_TASK:
            continue
        if low == b"cache-control":
            continue
        if low == b"set-cookie":
            cookie = _restricted_cookie(value.decode("latin-1"), service)
            if cookie:
                client_headers.append((name, cookie.encode("latin-1")))
            continue
        client_headers.append((name, value))
    return [*client_headers, _caching_header(all_headers), *_OF_EVERY_ANSWER]


def _caching_header(headers: Headers) -> tuple[bytes, bytes]:
    """Let browsers revalidate each answer, unless the task forbids storing it."""
    directives = b",".join(
        value.lower() for name, value in headers if name.lower() == b"cache-control"
    )
    return b"cache-control", b"no-store" if b"no-store" in directives else b"no-cache"


def cookie_to_keep(token: str, service: str, forwarded: Headers) -> tuple[bytes, bytes]:
    """Return the header by which a browser that came with a task's token comes back with it."""
    secure = "; Secure" if _first(forwarded, b"x-forwarded-proto") == "https" else ""
    cookie = f"{KEPT_COOKIE}={token}; Path=/proxy/{service}/; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", cookie.encode("latin-1")


def _restricted_cookie(cookie: str, service: str) -> str:
    """Restrict a cookie to the task's paths. Return "" for cookies with the names of the API's cookies."""
    pair, *attributes = cookie.split(";")
    # Browsers send the value alone of a cookie without a name: `=auth=x` comes back as `auth=x`.
    if pair.strip().removeprefix("=").partition("=")[0].strip() in _OURS:
        return ""
    own = f"/proxy/{service}"
    path = next((a.partition("=")[2] for a in attributes if _is(a, "path")), "").strip()
    others = [a.strip() for a in attributes if not (_is(a, "path") or _is(a, "domain"))]
    within = path == own or path.startswith(own + "/")
    return "; ".join([pair.strip(), *others, f"Path={path if within else own + '/'}"])


def _is(attribute: str, name: str) -> bool:
    return attribute.partition("=")[0].strip().lower() == name


def _cookies(headers: Headers) -> list[tuple[str, str]]:
    cookies = []
    for name, value in headers:
        if name.lower() == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                key, equals, content = pair.strip().partition("=")
                if key or equals:
                    cookies.append((key, content))
    return cookies


def _named_by_connection(headers: Headers) -> set[bytes]:
    return {
        token.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for token in value.split(b",")
    }


def _first(headers: Headers, name: bytes) -> str:
    return next((v.decode("latin-1") for n, v in headers if n.lower() == name), "")
