"""Find the fields that each handler reads by reading its source, so that the description matches the code."""

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType, MappingProxyType
from typing import Any

from det_controlplane.api.body import Body
from det_controlplane.api.http import Request

_OURS = "det_controlplane.api."
_INTEGER = {"type": "string", "format": "int64", "description": "or a number"}
_QUERY: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "texts": {"type": "array", "items": {"type": "string"}, "collectionFormat": "multi"},
    "integer": {"type": "integer", "format": "int64"},
    "integers": {"type": "array", "items": {"type": "integer"}, "collectionFormat": "multi"},
    "flag": {"type": "boolean"},
}
_FIELDS: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "optional_text": {"type": "string"},
    "required_text": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
    "integer": _INTEGER,
    "optional_integer": _INTEGER,
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "object": {"type": "object"},
    "items": {"type": "array", "items": {}},
    "integers": {"type": "array", "items": _INTEGER},
    "raw": {},
    "has": {},
}


@dataclass
class Fields:
    """The fields of a JSON object that a handler reads."""

    types: dict[str, Any] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)

    def schema(self) -> dict[str, Any]:
        found = {name: _schema(kind) for name, kind in sorted(self.types.items())}
        shown: dict[str, Any] = {"type": "object"}
        if found:
            shown["properties"] = found
        if self.required:
            shown["required"] = sorted(self.required)
        return shown

    def add(self, name: str, kind: Any) -> Any:
        """Keep the most that is known about a field."""
        before = self.types.get(name)
        if before is None or before == {}:
            self.types[name] = kind
        return self.types[name]


@dataclass(frozen=True)
class _Several:
    element: Fields


@dataclass
class Inputs:
    """List the parts of a request that a handler reads: query parameters, numbers in its path, and its body."""

    query: dict[str, dict[str, Any]] = field(default_factory=dict)
    numbers: set[str] = field(default_factory=set)
    body: Fields | None = None


class _Raw:
    """The body before it is read by names."""


_REQUEST, _RAW = object(), _Raw()


def _schema(kind: Any) -> dict[str, Any]:
    if isinstance(kind, Fields):
        return kind.schema()
    if isinstance(kind, _Several):
        return {"type": "array", "items": kind.element.schema()}
    return dict(kind)


@cache
def inputs_of(handler: Callable[..., Any]) -> Inputs:
    inputs = Inputs()
    _Reader(inputs).enter(handler, [None, _REQUEST], {})
    return inputs


class _Reader:
    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._entered: set[tuple[Any, ...]] = set()
        self._kept: list[Any] = []  # so that no identity is given twice

    def enter(self, function: Any, given: list[Any], named: dict[str, Any]) -> Any:
        """Analyse a function that is called with these arguments. Return its value."""
        tree = _parsed(function)
        names = [a.arg for a in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)]
        if names and names[0] == "self":
            names = names[1:]
        values = {**dict(zip(names, given, strict=False)), **named}
        if tree.args.vararg is not None:
            more = [v for v in given[len(names) :] if isinstance(v, str)]
            values[tree.args.vararg.arg] = _Names(more, spellings=True)
        mark = (function, *(id(values.get(n)) for n in names))
        if mark in self._entered:
            return None
        self._entered.add(mark)
        self._kept.append(values)
        return _Scope(self, function, values).run(tree.body)

    @property
    def inputs(self) -> Inputs:
        return self._inputs

    def body(self) -> Fields:
        if self._inputs.body is None:
            self._inputs.body = Fields()
        return self._inputs.body


class _Scope:
    """A function that is being read: its names, as far as they stand for the request or parts of its body."""

    def __init__(self, reader: _Reader, function: Any, values: dict[str, Any]) -> None:
        closed = inspect.getclosurevars(function)
        self._known = {**vars(builtins), **function.__globals__, **closed.nonlocals}
        self._values = values
        self._reader = reader
        self._returned: Any = None
        self._local: dict[str, ast.FunctionDef] = {}

    def run(self, statements: list[ast.stmt]) -> Any:
        for statement in statements:
            self._statement(statement)
        return self._returned

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef):
            self._local[node.name] = node
            return
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind(node.target, node.value)
        elif isinstance(node, ast.For):
            self._loop(node.target, node.iter)
        elif isinstance(node, ast.Return) and node.value is not None:
            self._returned = self.value(node.value) or self._returned
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._statement(child)
            elif isinstance(child, ast.ExceptHandler):
                self.run(child.body)
            else:
                self.value(child)

    def _bind(self, target: ast.expr, source: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(source, ast.Tuple):
            for one, other in zip(target.elts, source.elts, strict=False):
                self._bind(one, other)
        elif isinstance(target, ast.Name):
            self._values[target.id] = self.value(source)

    def _loop(self, target: ast.expr, source: ast.expr) -> None:
        over = self.value(source)
        if isinstance(over, _Several) and isinstance(target, ast.Name):
            self._values[target.id] = over.element
        elif isinstance(over, _Names) and isinstance(target, ast.Name):
            self._values[target.id] = over
        else:
            self._loop_over_constants(target, source)

    def _loop_over_constants(self, target: ast.expr, source: ast.expr) -> None:
        constants = list(self._constants(source))
        if isinstance(target, ast.Name):
            self._values[target.id] = _Names([c for c in constants if isinstance(c, str)])
        elif isinstance(target, ast.Tuple):
            rows = [c for c in constants if isinstance(c, tuple)]
            for at, name in enumerate(target.elts):
                if isinstance(name, ast.Name):
                    told = [r[at] for r in rows if len(r) > at and isinstance(r[at], str)]
                    self._values[name.id] = _Names(told)

    def _constants(self, node: ast.expr) -> Iterator[Any]:
        if isinstance(node, (ast.Tuple, ast.List)):
            for element in node.elts:
                try:
                    yield ast.literal_eval(element)
                except ValueError:
                    continue
        elif isinstance(node, ast.Name):
            found = self._known.get(node.id)
            yield from found if isinstance(found, (tuple, list, dict, frozenset)) else ()
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            found = self._known.get(owner.id) if isinstance(owner, ast.Name) else None
            if isinstance(found, (dict, MappingProxyType)):
                yield from found.items() if node.func.attr == "items" else found

    def value(self, node: ast.AST) -> Any:
        """Return the value of an expression, and record the fields of the request that it reads."""
        if isinstance(node, ast.Name):
            return self._values.get(node.id)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            for generator in node.generators:
                self._loop(generator.target, generator.iter)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, (ast.Tuple, ast.List)) and node.elts:
            told = [e.value for e in node.elts if isinstance(e, ast.Constant)]
            if len(told) == len(node.elts) and all(isinstance(t, str) for t in told):
                return _Names([str(t) for t in told])
        found = [self.value(child) for child in ast.iter_child_nodes(node)]
        if isinstance(node, (ast.BoolOp, ast.IfExp, ast.NamedExpr)):
            if isinstance(node, ast.NamedExpr):
                self._bind(node.target, node.value)
            return next((v for v in found if v is not None), None)
        return None

    def _call(self, node: ast.Call) -> Any:
        given = [self._argument(a) for a in node.args]
        named = {k.arg: self._argument(k.value) for k in node.keywords if k.arg}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.value(keyword.value)
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            if owner is _REQUEST:
                return self._read_request(node.func.attr, node.args)
            if isinstance(owner, Fields):
                return self._read_field(owner, node.func.attr, node.args)
        if isinstance(node.func, ast.Name) and node.func.id in self._local:
            return self._call_local(self._local[node.func.id], given)
        called = self._called(node.func)
        if called is Body:
            return self._reader.body() if _RAW in given else Fields()
        carried = [v for v in (*given, *named.values()) if _tells(v)]
        if carried and isinstance(called, FunctionType) and called.__module__.startswith(_OURS):
            return self._reader.enter(called, given, named)
        return None

    def _call_local(self, tree: ast.FunctionDef, given: list[Any]) -> Any:
        """Read a function inside the one being read, with the names of both."""
        outer = self._values
        self._values = {**outer, **dict(zip((a.arg for a in tree.args.args), given, strict=False))}
        try:
            return self.run(tree.body)
        finally:
            self._values = outer

    def _argument(self, node: ast.expr) -> Any:
        told = self.value(node)
        return node.value if told is None and isinstance(node, ast.Constant) else told

    def _called(self, node: ast.expr) -> Any:
        return self._known.get(node.id) if isinstance(node, ast.Name) else None

    def _read_request(self, method: str, args: list[ast.expr]) -> Any:
        if method == "json":
            self._reader.body()
            return _RAW
        names = [name for arg in args for name in self._names(arg)]
        if method == "id":
            self._reader.inputs.numbers.update(names)
        elif method in _QUERY:
            for name in names if self._is_looped(args) else names[:1]:
                self._reader.inputs.query.setdefault(name, _QUERY[method])
        elif isinstance(getattr(Request, method, None), FunctionType):
            return self._reader.enter(getattr(Request, method), [], {"self": _REQUEST})
        return None

    def _is_looped(self, args: list[ast.expr]) -> bool:
        """Return whether names are loop values. Otherwise they are spellings of the first one."""
        first = args[0] if args else None
        inner = first.value if isinstance(first, ast.Starred) else first
        found = self._values.get(inner.id) if isinstance(inner, ast.Name) else None
        if isinstance(found, _Names):
            return not found.spellings
        return first is not None and not isinstance(first, ast.Constant)

    def _read_field(self, owner: Fields, method: str, args: list[ast.expr]) -> Any:
        found: Any = None
        for name in self._names(args[0]) if args else ():
            if method == "required_text":
                owner.required.add(name)
            if method in ("body", "bodies"):
                kind: Any = Fields() if method == "body" else _Several(Fields())
                found = owner.add(name, kind)
            elif method in _FIELDS:
                owner.add(name, _FIELDS[method])
        return found

    def _names(self, node: ast.expr) -> list[str]:
        if isinstance(node, ast.Starred):
            return self._names(node.value)
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else []
        if isinstance(node, ast.Name):
            found = self._values.get(node.id, self._known.get(node.id))
            if isinstance(found, str):
                return [found]
            return found.names if isinstance(found, _Names) else []
        if isinstance(node, ast.JoinedStr):
            told = [""]
            for part in node.values:
                inner = part.value if isinstance(part, ast.FormattedValue) else part
                told = [head + tail for head in told for tail in self._names(inner)]
            return told
        return []


@dataclass(frozen=True)
class _Names:
    """The names that a loop goes through."""

    names: list[str]
    spellings: bool = False  # of one name, not several


def _tells(value: Any) -> bool:
    return value is _REQUEST or value is _RAW or isinstance(value, (Fields, _Several, _Names))


def _parsed(function: Any) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef), f"{function} is no function"
    return tree
