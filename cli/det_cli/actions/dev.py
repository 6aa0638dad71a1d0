"""`det dev`: send requests to the API, by path or by the names of its routes. The API's description has the names."""

import argparse
import difflib
import json
import re
import shlex
import sys
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from determined.common.http import Session, error_from

from det_cli import prompts
from det_cli.connection import V1, connect
from det_cli.errors import FAILED, OK, MissingError, UsageError
from det_cli.render import say, show

_AGREE = ("-y", "--yes", "--auto-confirm")


def auth_token(args: argparse.Namespace) -> None:
    session = connect(args)
    # This request verifies that the token is still valid.
    session.get(V1 + "/me")
    print(session.token)


def curl(args: argparse.Namespace) -> int:
    method = args.request or ("POST" if args.data else "GET")
    body = args.data.encode() if args.data else None
    path = args.path if args.path.startswith("/") else f"/{args.path}"
    session = connect(args)
    if args.show:
        say(_curl_command(session.base_url, args.user, method, path, args.data))
    status, _, payload = session.request_bytes(method, path, body=body)
    return print_response(status, payload)


def print_response(status: int, payload: bytes) -> int:
    """Print a response and return the command's exit status."""
    if status in (401, 403, 404, 409):
        raise error_from(status, payload)
    sys.stdout.write(payload.decode("utf-8", "replace"))
    sys.stdout.write("\n")
    return OK if status < 300 else FAILED


def _curl_command(base_url: str, user: str | None, method: str, path: str, data: str | None) -> str:
    """Return the request as a shell command. The command reads the token from det, so it is not printed."""
    words = ["curl", "-X", method, *(["-d", data] if data else []), base_url + path]
    token = ["det", "-m", base_url, *(["-u", user] if user else []), "dev", "auth-token"]
    return f'{shlex.join(words)} -H "Authorization: Bearer $({shlex.join(token)})"'


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


def list_bindings(args: argparse.Namespace) -> None:
    columns = [
        ("Name", lambda b: b["name"]),
        ("Takes", lambda b: b["takes"]),
        ("Summary", lambda b: b["summary"]),
    ]
    bindings = _bindings(connect(args)).values()
    show(
        args, columns, [{"name": b.name, "takes": b.takes, "summary": b.summary} for b in bindings]
    )


def call_binding(args: argparse.Namespace) -> int:
    words = [word for word in args.words if word not in _AGREE]
    session = connect(args)
    binding = _find_binding(_bindings(session), args.name)
    count = len(binding.in_path)
    if len(words) < count:
        raise UsageError(f"{binding.name} takes {binding.takes}")
    path = binding.path
    for name, value in zip(binding.in_path, words[:count], strict=True):
        path = path.replace("{" + name + "}", quote(value, safe=""))
    query, body = _binding_fields(binding, words[count:])
    if binding.method != "GET":
        question = f"Send {binding.method} {path}?"
        prompts.confirm(question, yes=args.yes or len(words) < len(args.words))
    request_body = None if binding.in_body is None else json.dumps(body).encode()
    status, _, payload = session.request_bytes(
        binding.method, path, params=query, body=request_body
    )
    return print_response(status, payload)


def _binding_fields(
    binding: Binding, words: list[str]
) -> tuple[dict[str, list[str]], dict[str, Any]]:
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


def _find_binding(bindings: dict[str, Binding], name: str) -> Binding:
    if name not in bindings:
        near = difflib.get_close_matches(name, bindings, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "see `det dev bindings list`"
        raise MissingError(f"the cluster has no API route named {name}", hint)
    return bindings[name]


def _bindings(session: Session) -> dict[str, Binding]:
    paths = session.get(f"{V1}/api.swagger.json")["paths"]
    bindings = [
        _read_binding(method.upper(), path, route)
        for path, methods in paths.items()
        if path.startswith(V1)
        for method, route in methods.items()
    ]
    return {binding.name: binding for binding in sorted(bindings, key=lambda b: (b.path, b.method))}


def _read_binding(method: str, path: str, route: dict[str, Any]) -> Binding:
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
