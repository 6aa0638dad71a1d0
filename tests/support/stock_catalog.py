"""The requests and expected answers of the stock client, from its own bindings (tests/support/stock_bindings.py)."""

import functools
import json
import re
import subprocess
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.stock import stock_python

SCRIPT = Path(__file__).parent / "stock_bindings.py"
SCALARS: Mapping[str, Any] = {"str": str, "int": int, "bool": bool, "float": (int, float)}
NOT_FINITE = ("NaN", "Infinity", "-Infinity")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
# Fields of type `str` that are times, by how their names end.
TIMES = re.compile(r"([a-z](Time|At)|^timestamp|^expiry)$")


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    query: Mapping[str, str]
    body: str
    answer: str
    stream: bool

    def url(self, places: Mapping[str, object]) -> str:
        quoted_places = {k: urllib.parse.quote(str(v), safe="") for k, v in places.items()}
        return self.path.format(**quoted_places)


@dataclass(frozen=True)
class Field:
    type: str
    required: bool


@dataclass(frozen=True)
class Catalog:
    calls: Mapping[str, Call]
    messages: Mapping[str, Mapping[str, Field]]
    enums: Mapping[str, frozenset[str]]

    def problems(self, kind: str, value: Any, place: str = "") -> Iterator[str]:
        """Yield each place at which a value does not have the expected type."""
        if kind in self.messages and isinstance(value, dict):
            yield from self._message_problems(kind, value, place)
        elif kind in self.enums:
            if value not in self.enums[kind]:
                yield f"{place} is {value!r}, not one of {kind}"
        elif kind[0] == "[" and isinstance(value, list):
            for inner in value:
                yield from self.problems(kind[1:-1], inner, f"{place}[]")
        elif kind[0] == "{" and isinstance(value, dict):
            for inner in value.values():
                yield from self.problems(kind[1:-1], inner, f"{place}{{}}")
        elif kind != "any" and not _is_scalar(kind, value):
            yield f"{place} is {value!r}, not {kind}"

    def _message_problems(self, kind: str, value: dict[str, Any], place: str) -> Iterator[str]:
        for name, field in self.messages[kind].items():
            inner = f"{place}.{name}".lstrip(".")
            item = value.get(name)
            if name not in value:
                if field.required:
                    yield f"{inner} ({kind}) is missing"
            elif item is None:
                if field.required:
                    yield f"{inner} ({kind}) is null"
            elif field.type == "str" and TIMES.search(name) and not TIME.fullmatch(str(item)):
                yield f"{inner} ({kind}) is {item!r}, not a time"
            else:
                yield from self.problems(field.type, item, inner)

    def choices(self, call: Call) -> Iterator[dict[str, list[str]]]:
        """Give each value that a query of this call may have where there are only some."""
        for name, kind in call.query.items():
            inner = kind.strip("[]")
            booleans = ["true", "false"] if inner == "bool" and name != "follow" else []
            for value in (*sorted(self.enums.get(inner, ())), *booleans):
                yield {name: [value]}

    def fields(self, kind: str, value: Any) -> Iterator[str]:
        """Tell `Message.field` for each field that a value has, through all that it holds."""
        if kind in self.messages and isinstance(value, dict):
            for name, field in self.messages[kind].items():
                if name in value:
                    yield f"{kind}.{name}"
                    yield from self.fields(field.type, value[name])
        elif kind[:1] in ("[", "{") and value:
            for inner in value.values() if isinstance(value, dict) else value:
                yield from self.fields(kind[1:-1], inner)


def _is_scalar(kind: str, value: Any) -> bool:
    if kind == "float" and value in NOT_FINITE:
        return True
    is_boolean = isinstance(value, bool)
    return isinstance(value, SCALARS.get(kind, ())) and is_boolean == (kind == "bool")


@functools.cache
def catalog() -> Catalog:
    document = json.loads(_run())
    calls = {
        name: Call(**{**call, "path": urllib.parse.unquote(call["path"])})
        for name, call in document["calls"].items()
    }
    messages = {
        name: {field: Field(**about) for field, about in fields.items()}
        for name, fields in document["messages"].items()
    }
    enums = {name: frozenset(values) for name, values in document["enums"].items()}
    return Catalog(calls, messages, enums)


def unreadable(values: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Let the client read answers, and return those with errors."""
    items = list(values)
    lines = "".join(json.dumps(pair) + "\n" for pair in items)
    for (kind, _), line in zip(items, _run("--read", stdin=lines).splitlines(), strict=True):
        if line:
            yield f"{kind}: {line}"


def _run(*arguments: str, stdin: str = "") -> str:
    command = [str(stock_python()), "-W", "ignore", str(SCRIPT), *arguments]
    result = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
