"""Print the declarations of the stock client's bindings as JSON. Runs in the interpreter of the stock client.

`calls` has the method, path, query, body and answer of each call, `messages` the fields of each message, `enums` the
names of each enumeration. A type is `str`, `int`, `float`, `bool`, `any`, the name of a message or enumeration,
`[T]` for a list or `{T}` for a map.

With `--read`, read lines of `[message, value]` and print for each the error of the client's reader, or an empty
text.
"""

import importlib
import inspect
import json
import sys
import typing
from typing import Any

BINDINGS: Any = importlib.import_module("determined.common.api.bindings")
SCALARS = {str: "str", int: "int", float: "float", bool: "bool", Any: "any"}


class Asked(Exception):
    """End a call after it has declared its request."""


class Session:
    def _do_request(self, **request: Any) -> None:
        raise Asked(request)


class Body:
    def to_json(self, *_: object) -> object:
        return {}


def calls() -> dict[str, Any]:
    functions = inspect.getmembers(BINDINGS, inspect.isfunction)
    return {n: call(f) for n, f in functions if "session" in inspect.signature(f).parameters}


def call(function: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(function, {**vars(BINDINGS), "api": FakeApi})
    answer = hints.pop("return")
    parameters = inspect.signature(function).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.name != "session"]
    request = asked(function, {name: argument(name, hints[name]) for name in required})
    query = {name: spelled(hints[name.replace(".", "_")]) for name in request["params"] or {}}
    return {
        "method": request["method"],
        "path": request["path"],
        "query": query,
        "body": spelled(hints["body"]) if "body" in hints else "",
        "answer": "" if answer is type(None) else spelled(answer),
        "stream": request["stream"],
    }


class FakeApi:
    BaseSession = Any


def argument(name: str, hint: Any) -> object:
    if name == "body":
        return Body()
    is_enum = inspect.isclass(hint) and issubclass(hint, BINDINGS.DetEnum)
    return next(iter(hint)) if is_enum else "{" + name + "}"


def asked(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        for _ in function(Session(), **arguments) or ():
            pass
    except Asked as e:
        request: dict[str, Any] = e.args[0]
        return request
    raise AssertionError(f"{function.__name__} asks for nothing")


def spelled(hint: Any) -> str:
    if hint in SCALARS:
        return SCALARS[hint]
    of = [a for a in typing.get_args(hint) if a is not type(None) and a is not BINDINGS.Unset]
    if typing.get_origin(hint) is typing.Union:
        (inner,) = of
        return spelled(inner)
    if typing.get_origin(hint) is None:
        return str(hint.__name__)
    return "{" + spelled(of[1]) + "}" if len(of) == 2 else "[" + spelled(of[0]) + "]"


def classes(base: str) -> list[Any]:
    every = [c for _, c in inspect.getmembers(BINDINGS, inspect.isclass)]
    return [c for c in every if issubclass(c, getattr(BINDINGS, base)) and c.__name__ != base]


def message(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind.__init__, vars(BINDINGS))
    fields = [p for p in inspect.signature(kind.__init__).parameters.values() if p.name != "self"]
    return {
        p.name: {"type": spelled(hints[p.name]), "required": p.default is p.empty} for p in fields
    }


def describe() -> None:
    enums = {c.__name__: [e.value for e in c] for c in classes("DetEnum")}
    messages = {c.__name__: message(c) for c in classes("Printable")}
    json.dump({"calls": calls(), "messages": messages, "enums": enums}, sys.stdout)


def read() -> None:
    for line in sys.stdin:
        kind, value = json.loads(line)
        try:
            getattr(BINDINGS, kind).from_json(value)
        except Exception as e:  # a user would meet every such error
            print(repr(e))
        else:
            print()


if __name__ == "__main__":
    read() if "--read" in sys.argv else describe()
