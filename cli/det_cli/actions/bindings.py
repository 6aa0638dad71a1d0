"""`det dev bindings`: call API routes by name. The names come from the cluster's API description."""

import argparse
import difflib
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from determined.common.http import Session

from det_cli import prompts
from det_cli.actions.dev import print_response
from det_cli.connection import V1, connect
from det_cli.errors import MissingError, UsageError
from det_cli.render import show

_AGREE = ("-y", "--yes", "--auto-confirm")


@dataclass(frozen=True)
class Binding:
    method: str
    path: str
    summary: str
    in_path: list[str]
    in_query: list[str]
    in_body: list[str] | None  # None: the route has no body; empty: it accepts any fields

    @property
    def name(self) -> str:
        words = re.sub(r"\W+", "_", self.path.removeprefix(V1)).strip("_")
        return f"{self.method.lower()}_{words}"

    @property
    def takes(self) -> str:
        fields = [*self.in_query, *(self.in_body or ())]
        return " ".join([*self.in_path, *(f"{name}=" for name in fields)])


def list_(args: argparse.Namespace) -> None:
    columns = [
        ("Name", lambda b: b["name"]),
        ("Takes", lambda b: b["takes"]),
        ("Summary", lambda b: b["summary"]),
    ]
    bindings = _bindings(connect(args)).values()
    show(
        args, columns, [{"name": b.name, "takes": b.takes, "summary": b.summary} for b in bindings]
    )


def call(args: argparse.Namespace) -> int:
    words = [word for word in args.words if word not in _AGREE]
    session = connect(args)
    binding = _find(_bindings(session), args.name)
    count = len(binding.in_path)
    if len(words) < count:
        raise UsageError(f"{binding.name} takes {binding.takes}")
    path = binding.path
    for name, value in zip(binding.in_path, words[:count], strict=True):
        path = path.replace("{" + name + "}", quote(value, safe=""))
    query, body = _fields(binding, words[count:])
    if binding.method != "GET":
        question = f"Send {binding.method} {path}?"
        prompts.confirm(question, yes=args.yes or len(words) < len(args.words))
    request_body = None if binding.in_body is None else json.dumps(body).encode()
    status, _, payload = session.request_bytes(
        binding.method, path, params=query, body=request_body
    )
    return print_response(status, payload)


def _fields(binding: Binding, words: list[str]) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Split KEY=VALUE words into query parameters and body fields. Body values may be JSON."""
    query: dict[str, list[str]] = {}
    body: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key in binding.in_query:
            query.setdefault(key, []).append(value)
        elif equals and binding.in_body is not None and key in (binding.in_body or [key]):
            body[key] = _json_or_text(value)
        else:
            raise UsageError(f"{binding.name} takes {binding.takes or 'nothing'}, not {word!r}")
    return query, body


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _find(bindings: dict[str, Binding], name: str) -> Binding:
    if name not in bindings:
        near = difflib.get_close_matches(name, bindings, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "see `det dev bindings list`"
        raise MissingError(f"the cluster has no API route named {name}", hint)
    return bindings[name]


def _bindings(session: Session) -> dict[str, Binding]:
    paths = session.get(f"{V1}/api.swagger.json")["paths"]
    bindings = [
        _read(method.upper(), path, route)
        for path, methods in paths.items()
        if path.startswith(V1)
        for method, route in methods.items()
    ]
    return {binding.name: binding for binding in sorted(bindings, key=lambda b: (b.path, b.method))}


def _read(method: str, path: str, route: dict[str, Any]) -> Binding:
    parameters = route["parameters"]
    body = next((p["schema"] for p in parameters if p["in"] == "body"), None)
    return Binding(
        method,
        path,
        route["summary"],
        [p["name"] for p in parameters if p["in"] == "path"],
        [p["name"] for p in parameters if p["in"] == "query"],
        None if body is None else list(body.get("properties") or ()),
    )
