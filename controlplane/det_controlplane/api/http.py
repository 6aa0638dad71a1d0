"""Requests and responses of the API, independent of the host."""

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import chain, pairwise
from typing import Any
from urllib.parse import urlsplit

from det_controlplane.api.errors import BadRequest, TooLarge
from det_controlplane.core.documents import MOST_JSON_VALUES, has_too_many_values
from det_controlplane.core.numerals import whole
from det_controlplane.services.principal import Principal

MAX_DEPTH = 200
STRANGERS_BODY = 64 * 1024  # for unauthenticated callers
MAX_BODY = 130 * 1024 * 1024  # the limit of the stock client: 95 MiB of files in base64
REPORT_BODY = 16 * 1024 * 1024  # for programs: reports, logs, data of all-gathers
FORM_BODY = 1024 * 1024  # of everything else
# The ids that log lines have, by the segment of a path before an id.
_LOG_IDS = {
    "experiments": "experiment_id",
    "trials": "trial_id",
    "tasks": "task_id",
    "allocations": "allocation_id",
    "containers": "container_id",
    "agents": "agent_id",
    "instances": "machine_id",
}


@dataclass(slots=True)
class Request:
    """A request to the API. With `final`, the host cannot wait, so a long poll answers with the present state."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)  # lower-case names
    body: bytes = b""
    client: str = ""
    scheme: str = "http"  # of the connection to this host; a front end may have taken another
    public_url: str = ""  # the address that the client asked, where the host proves it
    final: bool = True
    params: Mapping[str, str] = field(default_factory=dict)
    principal: Principal | None = None
    within: Sequence[int] | None = None  # the workspaces to which a listing is held; None: all
    largest: int = MAX_BODY  # limit of the uncompressed body
    sender: str = ""  # the caller that a large body counts for
    noted: Callable[[Mapping[str, Any]], None] | None = None  # called with each body that is read
    # Values that a handler keeps between the calls of one long poll.
    kept: dict[str, str] = field(default_factory=dict)
    trace_id: str = ""  # of log lines and spans
    route: str = ""  # the path of its route, once that is known

    def log_ids(self) -> Mapping[str, object]:
        """Return the ids of the log lines of this request."""
        ids: dict[str, object] = {"request_id": self.trace_id, "trace_id": self.trace_id}
        if self.principal is not None:
            ids |= self.principal.log_ids()
        parts = self.route.split("/")
        for before, part in pairwise(parts):
            if part.startswith("{") and before in _LOG_IDS:
                ids[_LOG_IDS[before]] = self.params.get(part.strip("{}"), "")
        return ids

    def json(self) -> dict[str, Any]:
        """Return the body as an object; an absent body is an empty object."""
        obj = self.json_value()
        if not isinstance(obj, dict):
            raise BadRequest("the body must be a JSON object")
        if self.noted is not None:
            self.noted(obj)
        return obj

    def json_value(self) -> Any:
        """Return the body as a value of any type. A missing body is an empty object."""
        raw = self.body
        if self.headers.get("content-encoding") == "gzip":
            raw = _unpack_body(raw, self.largest)
        return parsed(raw, "the body") if raw.strip() else {}

    def text(self, *names: str, default: str = "") -> str:
        """Return the first value of a query parameter, by any of its spellings."""
        values = self.texts(*names)
        return values[0] if values else default

    def texts(self, *names: str) -> list[str]:
        return [v for name in names for v in self.query.get(name, ())]

    def integer(self, *names: str, default: int = 0) -> int:
        value = self.text(*names)
        if not value:
            return default
        number = whole(value)
        if number is None:
            raise BadRequest(f"query parameter {names[0]} must be an integer, not {value[:80]!r}")
        return number

    def integers(self, *names: str) -> list[int]:
        numbers = [whole(v) for v in self.texts(*names) if v]
        if None in numbers:
            raise BadRequest(f"query parameter {names[0]} must be a list of integers")
        return [number for number in numbers if number is not None]

    def flag(self, *names: str) -> bool | None:
        value = self.text(*names).lower()
        return None if not value else value in ("true", "1")

    def held(self) -> dict[str, list[int]]:
        """Return the filter that holds a listing, or a change of many, to where the caller has the right."""
        return {} if self.within is None else {"in_workspaces": list(self.within)}

    def param(self, name: str) -> str:
        return self.params[name]

    def id(self, name: str) -> int:
        """Return a numeric path parameter."""
        value = self.params[name]
        if not (value.isascii() and value.isdigit()):
            raise BadRequest(f"{name} must be a number, not {value[:80]!r}")
        if len(value) > 9:
            raise BadRequest(f"{name} must be a number of at most 9 digits, not {value[:80]}")
        return int(value)


@dataclass(frozen=True, slots=True)
class Response:
    body: bytes = b"{}"
    status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """An answer that is not there yet: the handler is called again when the topic wakes, or after `seconds`."""

    topic: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Batch:
    """Some lines of a stream, the cursor behind them, and whether the stream has ended.

    A batch without lines waits for more, unless it is `unfinished`: the stored lines were not looked through yet."""

    lines: Sequence[bytes]
    cursor: Any
    done: bool
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """Newline-delimited JSON: the host calls `fetch(cursor)` until it is done.

    Empty batches wait for the topic, unless they are unfinished.

    The "lines" of a file are pieces of it, and a failure leaves it visibly incomplete.
    """

    fetch: Callable[[Any], Batch]
    cursor: Any = None
    topic: str = ""
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    is_file: bool = False


Answer = Response | Wait | Stream


def parsed(raw: bytes, what: str) -> Any:
    """Return the value of a JSON text of any type, within limits of size and depth."""
    if has_too_many_values(raw):
        raise TooLarge(f"{what} has more than {MOST_JSON_VALUES} values: send less, or in parts")
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as e:
        raise BadRequest(f"{what} is not valid JSON: {e}") from e
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        _refuse_depth(value, what)
    return value


def _refuse_depth(value: Any, what: str) -> None:
    """Refuse values that can be parsed but not serialised again."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise BadRequest(f"{what} nests values deeper than {MAX_DEPTH} levels")


def _unpack_body(body: bytes, largest: int) -> bytes:
    """Unpack a body up to the limit of its size: a few kilobytes can stand for gigabytes."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            unpacked = file.read(largest + 1)
    except (OSError, EOFError, zlib.error) as e:
        raise BadRequest("the body is not valid gzip") from e
    if len(unpacked) > largest:
        raise TooLarge(f"the body unpacks to more than {largest >> 20} MiB: send less, or in parts")
    return unpacked


def json_response(obj: Any, status: int = 200) -> Response:
    return Response(as_json(obj).encode(), status)


def json_text(text: str | None) -> Response:
    """Return an answer that PostgreSQL already wrote as JSON."""
    return Response((text or "{}").encode())


def json_parts(parts: Iterator[str]) -> Answer:
    """Return an answer that PostgreSQL wrote as JSON, sent part by part where there are several."""
    first, second = next(parts), next(parts, None)
    if second is None:
        return json_text(first)
    remaining = chain((first, second), parts)

    def fetch(cursor: None) -> Batch:
        part = next(remaining, None)
        return Batch([] if part is None else [part.encode()], cursor, part is None)

    return Stream(fetch, is_file=True)


def json_object(**fields: str) -> Response:
    """Return an object of fields that are JSON text already."""
    body = ",".join([f'"{name}":{text}' for name, text in fields.items()])
    return Response(b"{%s}" % body.encode())


def as_json(obj: Any) -> str:
    return json.dumps(obj, separators=(",", ":"), default=str)


def line(obj: Any) -> bytes:
    """Return a line of a stream as Determined's gateway writes it."""
    return json.dumps({"result": obj}, separators=(",", ":"), default=str).encode() + b"\n"


EMPTY = Response()


def bearer_token(request: Request) -> str:
    """Return the caller's token, from any header or cookie that Determined's clients use."""
    return _token_of_headers(request) or _token_of_cookie(request)


def is_signed_in_by_cookie(request: Request) -> bool:
    """Return whether a browser signed the request in, and not a program with a token."""
    return not _token_of_headers(request) and bool(_token_of_cookie(request))


def _token_of_headers(request: Request) -> str:
    for name in ("authorization", "grpc-metadata-x-allocation-token"):
        value = request.headers.get(name, "")
        if value.lower().startswith("bearer "):
            return value[7:].strip()
    return ""


def _token_of_cookie(request: Request) -> str:
    for pair in request.headers.get("cookie", "").split(";"):
        key, _, value = pair.strip().partition("=")
        if key == "auth":
            return value
    return ""


def is_of_another_site(request: Request) -> bool:
    """Return whether a page of another site makes its visitor's browser change something here.

    Browsers send the cookie automatically, so it does not prove the user's intent. The answer to a sign-in replaces
    the cookie. Programs send neither header."""
    if request.method in ("GET", "HEAD") or _token_of_headers(request):
        return False
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    # Over plain HTTP, browsers only send the origin.
    origin = request.headers.get("origin")
    if origin is None:
        return False
    return origin == "null" or origin.partition("://")[2] != request.headers.get("host")


def asks_this_machine(request: Request) -> bool:
    """Return whether a request uses a name of this machine that other names cannot imitate, because a name server
    may point any name here.

    A browser would treat pages of such a name as the same site."""
    host = request.headers.get("host")
    if host is None:  # no browser
        return True
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name.split(".")[-1] == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def session_cookie(request: Request, token: str, seconds: int) -> dict[str, str]:
    """Return the header that sets the session cookie. Scripts cannot read it, and other sites cannot act with it.

    Links from other sites must send it. Otherwise pages of tasks could be shown to other signed-in users, and a page
    requested without the cookie would have it afterwards. So it is Lax, and `is_of_another_site` checks the rest."""
    is_https = "https" in (request.scheme, request.headers.get("x-forwarded-proto"))
    secure = "; Secure" if is_https else ""
    value = f"auth={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
    return {"set-cookie": value}
