"""The record of a route, and the trie that finds it: matching costs one dictionary look-up a path segment."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from det_controlplane.api.http import FORM_BODY, Answer, Request, Response
from det_controlplane.api.inputs import read_body, read_query
from det_controlplane.core.people.permissions import Rule

if TYPE_CHECKING:
    from det_controlplane.services.context import Context

# Called with the context and the request, and with `query` and `body` if its signature names their models.
Handler = Callable[..., Answer]


class Access(Enum):
    PUBLIC = "public"
    USER = "user"  # a person or a task acting for one
    ADMIN = "admin"
    AGENT = "agent"
    AGENT_BY_HANDLER = "agent by handler"  # the handler's first statement also checks the token


class Unaudited(Enum):
    """The reasons why the audit log does not record a route."""

    NO_CHANGE = "it changes nothing, or only the caller's own pages"
    REPORT = "a program reports many times a minute; metrics, checkpoints, logs and events are stored elsewhere"


@dataclass(frozen=True, slots=True)
class Shared:
    """Answers several requests of a route at once; None stands for a request that its handler must see."""

    fits: Callable[[Request], bool]  # a look at a request before its caller is known
    answers: Callable[["Context", Sequence[Request]], Sequence[Response | None]]


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """The record of one route: authorization, audit log, OpenAPI and the references are derived from it."""

    method: str
    path: str  # "/api/v1/trials/{trialId}/logs"; a last segment "{rest...}" takes the remainder
    handler: Handler
    access: Access = Access.USER
    summary: str = ""
    rule: Rule | None = None  # for signed-in users: the right, its place, and the access of tasks
    audit: str | Unaudited | None = None  # the action in the audit log, such as "experiment.kill"
    # For routes that are open: how large a body may be, or a refusal, before it is read.
    admits: Callable[[Request], int] | None = None
    largest: int = FORM_BODY  # bytes of a body, as it is sent and as it unpacks
    shared: Shared | None = None
    # A list or report: a read-only copy of the database may answer it, if there is one.
    from_replica: bool = False
    # Media types of the answers. Refusals are JSON.
    produces: tuple[str, ...] = ("application/json",)
    response: type | None = None  # the shape of its answer, from api/answers.py

    @property
    def query(self) -> type | None:
        """Return the model of the query that the handler's signature names."""
        return getattr(self.handler, "__annotations__", {}).get("query")

    @property
    def body(self) -> Any:
        """Return the model of the body that the handler's signature names, or None."""
        return getattr(self.handler, "__annotations__", {}).get("body")

    def answer(self, ctx: "Context", request: Request) -> Answer:
        """Read the models that the handler needs, and call it."""
        inputs: dict[str, Any] = {}
        if self.query is not None:
            inputs["query"] = read_query(self.query, request)
        if self.body is not None:
            inputs["body"] = read_body(self.body, request)
        return self.handler(ctx, request, **inputs)


@dataclass(slots=True)
class _Node:
    children: dict[str, "_Node"] = field(default_factory=dict)
    wildcard: "_Node | None" = None
    rest: "_Node | None" = None
    routes: dict[str, tuple[Route, tuple[str, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Match:
    route: Route
    params: dict[str, str]


class Router:
    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        self.add(routes)

    def add(self, routes: Iterable[Route]) -> None:
        for route in routes:
            self._add(route)

    def match(self, method: str, path: str) -> Match | set[str]:
        """Return the route and its parameters, or the methods that the path does have (empty: no such path)."""
        segments = [unquote(s) for s in path.strip("/").split("/")] if path.strip("/") else []
        result = self._find(self._root, segments, 0, [])
        if result is None:
            return set()
        node, values = result
        entry = node.routes.get(method) or (node.routes.get("GET") if method == "HEAD" else None)
        if entry is None:
            return set(node.routes)
        route, names = entry
        return Match(route, dict(zip(names, values, strict=True)))

    def _add(self, route: Route) -> None:
        node, names = self._root, []
        for segment in [s for s in route.path.split("/") if s]:
            if segment.startswith("{"):
                name = segment.strip("{}")
                names.append(name.removesuffix("..."))
                node = _enter_rest(node) if name.endswith("...") else _enter_wildcard(node)
            else:
                node = node.children.setdefault(segment, _Node())
        if route.method in node.routes:
            raise ValueError(f"two routes for {route.method} {route.path}")
        node.routes[route.method] = (route, tuple(names))

    def _find(
        self, node: _Node, segments: list[str], at: int, values: list[str]
    ) -> tuple[_Node, list[str]] | None:
        if at == len(segments):
            return (node, values) if node.routes else None
        child = node.children.get(segments[at])
        if child is not None:
            result = self._find(child, segments, at + 1, values)
            if result is not None:
                return result
        if node.wildcard is not None and segments[at]:
            result = self._find(node.wildcard, segments, at + 1, [*values, segments[at]])
            if result is not None:
                return result
        if node.rest is not None:
            return node.rest, [*values, "/".join(segments[at:])]
        return None


class GrowingRouter(Router):
    """Loads the routes of a place at the first request for it."""

    def __init__(
        self,
        routes: Iterable[Route],
        place_of: Callable[[str], str],
        modules_at: Callable[[str], Iterable[str]],
        of_module: Callable[[str], Iterable[Route]],
    ) -> None:
        super().__init__(routes)
        self._place_of, self._modules_at, self._of_module = place_of, modules_at, of_module
        self._places: set[str] = set()
        self._modules: set[str] = set()
        self._growing = threading.Lock()

    def match(self, method: str, path: str) -> Match | set[str]:
        place = self._place_of(path)
        if place not in self._places:
            with self._growing:
                self._load_modules(place)
        return super().match(method, path)

    def _load_modules(self, place: str) -> None:
        modules = tuple(self._modules_at(place))
        for name in modules:
            if name not in self._modules:
                self.add(self._of_module(name))
                self._modules.add(name)
        if modules:
            self._places.add(place)


def _enter_wildcard(node: _Node) -> _Node:
    node.wildcard = node.wildcard or _Node()
    return node.wildcard


def _enter_rest(node: _Node) -> _Node:
    node.rest = node.rest or _Node()
    return node.rest


def get(path: str, handler: Handler, **kw: Any) -> Route:
    return Route("GET", path, handler, **kw)


def post(path: str, handler: Handler, **kw: Any) -> Route:
    return Route("POST", path, handler, **kw)


def put(path: str, handler: Handler, **kw: Any) -> Route:
    return Route("PUT", path, handler, **kw)


def patch(path: str, handler: Handler, **kw: Any) -> Route:
    return Route("PATCH", path, handler, **kw)


def delete(path: str, handler: Handler, **kw: Any) -> Route:
    return Route("DELETE", path, handler, **kw)
