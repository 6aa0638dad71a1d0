"""What of a request goes on to a task, and what of its answer goes back: both share the origin of the API."""

from collections.abc import Iterable
from urllib.parse import parse_qsl

from det_controlplane.services.tasks.proxying import Carriers

Headers = list[tuple[bytes, bytes]]
KEPT_COOKIE = "det-task-token"
_OURS = ("auth", KEPT_COOKIE)
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" transfer-encoding upgrade expect".split()
)
_ALLOCATION = b"grpc-metadata-x-allocation-token"
# What a page could take hold of the whole origin by: the API's own data, and all its paths.
_NOT_FOR_A_TASK = frozenset(
    (
        b"clear-site-data",
        b"service-worker-allowed",
        b"strict-transport-security",
        b"public-key-pins",
    )
)


def carriers(headers: Headers, query: bytes) -> Carriers:
    """Find the tokens of a request."""
    scheme, _, credentials = _first(headers, b"authorization").partition(" ")
    allocation = _first(headers, _ALLOCATION)
    cookies = dict(_cookies(headers))
    in_address = next((v for n, v in parse_qsl(query.decode("latin-1")) if n == "token"), "")
    if scheme.lower() == "token":
        in_address = credentials.strip() or in_address
    return Carriers(
        bearer=credentials.strip() if scheme.lower() == "bearer" else "",
        allocation=allocation.partition(" ")[2].strip() if allocation else "",
        cookie=cookies.get("auth", ""),
        in_address=in_address,
        kept=cookies.get(KEPT_COOKIE, ""),
    )


def towards_task(headers: Headers, *, bearer_is_ours: bool) -> Headers:
    """Leave out what is between the client and this process: connections, and the API's own tokens."""
    named = _named_by_connection(headers)
    passed = []
    for name, value in headers:
        low = name.lower()
        if low in _HOP_BY_HOP or low in named or low == _ALLOCATION or low == b"cookie":
            continue
        if low == b"authorization" and bearer_is_ours:
            continue
        passed.append((name, value))
    kept = "; ".join(f"{n}={v}" for n, v in _cookies(headers) if n not in _OURS)
    return [*passed, (b"cookie", kept.encode("latin-1"))] if kept else passed


def from_task(headers: Iterable[tuple[bytes, bytes]], service: str) -> Headers:
    """Leave out what is between this process and the task, and hold cookies to the task's own paths."""
    given = list(headers)
    named = _named_by_connection(given)
    passed = []
    for name, value in given:
        low = name.lower()
        if low in _HOP_BY_HOP or low in named or low in _NOT_FOR_A_TASK:
            continue
        if low == b"set-cookie":
            held = _held_cookie(value.decode("latin-1"), service)
            if held:
                passed.append((name, held.encode("latin-1")))
            continue
        passed.append((name, value))
    return passed


def cookie_to_keep(token: str, service: str, forwarded: Headers) -> tuple[bytes, bytes]:
    """Return the header by which a browser that came with a task's token comes back with it."""
    secure = "; Secure" if _first(forwarded, b"x-forwarded-proto") == "https" else ""
    cookie = f"{KEPT_COOKIE}={token}; Path=/proxy/{service}/; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", cookie.encode("latin-1")


def _held_cookie(cookie: str, service: str) -> str:
    """Return a cookie that no path but the task's sees; empty for the names that are the API's."""
    pair, *attributes = cookie.split(";")
    if pair.partition("=")[0].strip() in _OURS:
        return ""
    own = f"/proxy/{service}"
    path = next((a.partition("=")[2] for a in attributes if _is(a, "path")), "").strip()
    kept = [a.strip() for a in attributes if not (_is(a, "path") or _is(a, "domain"))]
    within = path == own or path.startswith(own + "/")
    return "; ".join([pair.strip(), *kept, f"Path={path if within else own + '/'}"])


def _is(attribute: str, name: str) -> bool:
    return attribute.partition("=")[0].strip().lower() == name


def _cookies(headers: Headers) -> list[tuple[str, str]]:
    found = []
    for name, value in headers:
        if name.lower() == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                key, equals, content = pair.strip().partition("=")
                if key or equals:
                    found.append((key, content))
    return found


def _named_by_connection(headers: Headers) -> set[bytes]:
    return {
        token.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for token in value.split(b",")
    }


def _first(headers: Headers, wanted: bytes) -> str:
    return next((v.decode("latin-1") for n, v in headers if n.lower() == wanted), "")
