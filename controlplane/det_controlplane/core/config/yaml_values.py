"""Convert YAML text to JSON values with the rules of YAML 1.2: `on` is text, `1e-3` is a number.

PyYAML's constructor follows YAML 1.1 and silently keeps the last of two equal keys. This module builds values from
PyYAML's nodes instead, which is also twice as fast.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import yaml

_PREFIX = "tag:yaml.org,2002:"
_STR, _SEQ, _MAP, _MERGE = (_PREFIX + kind for kind in ("str", "seq", "map", "merge"))
_SCALAR = re.compile(
    r"(?P<null>~|null|Null|NULL|)"
    r"|(?P<bool>true|True|TRUE|false|False|FALSE)"
    r"|(?P<int>[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|[0-9][0-9_]*))"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
    r"|(?P<merge><<)"
)
_MAX_DEPTH = 200
# A node of two characters takes some hundred bytes of memory. A merge takes time for each copied key.
MAX_NODES = 200_000
_MAX_DIGITS = (
    1000  # hexadecimal integers must be written as decimal text, and Python limits its length
)
_NOT_TEXT = frozenset("~nNtTfF-+.0123456789<")


def values_of(text: str) -> Any:
    """Return the value of the only document. Raises yaml.YAMLError with the position of an error."""
    loader = _loader()(text)
    try:
        node = loader.get_single_node()
        return None if node is None else _Values().value(node)
    finally:
        loader.dispose()


@cache
def _loader() -> Any:
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        depth = 0
        nodes = 0

        def descend_resolver(self, parent: Any, index: Any) -> None:
            # Called for every node. Without a limit, PyYAML's C parser would overflow its stack and crash.
            self.depth += 1
            self.nodes += 1
            if self.nodes > MAX_NODES:
                raise yaml.YAMLError(f"more than {MAX_NODES} values")
            if self.depth > _MAX_DEPTH:
                raise yaml.YAMLError(f"more than {_MAX_DEPTH} levels of nesting")

        def ascend_resolver(self) -> None:
            self.depth -= 1

        def resolve(self, kind: Any, value: Any, implicit: tuple[bool, bool]) -> str:
            if kind is not yaml.ScalarNode:
                return _SEQ if kind is yaml.SequenceNode else _MAP
            if not implicit[0] or (value and value[0] not in _NOT_TEXT):
                return _STR
            match = _SCALAR.fullmatch(value)
            return _PREFIX + str(match.lastgroup) if match else _STR

    return Loader


class _Values:
    """The values of a graph of nodes. A node that aliases repeat is converted once."""

    def __init__(self) -> None:
        self._finished: dict[int, Any] = {}
        self._open: set[int] = set()
        self._copied = 0

    def value(self, node: Any) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        key = id(node)
        if key in self._finished:
            return self._finished[key]
        if key in self._open:
            raise _error("this value contains itself", node)
        self._open.add(key)
        self._finished[key] = collection = self._collection(node)
        self._open.discard(key)
        return collection

    def _collection(self, node: Any) -> Any:
        if isinstance(node, yaml.SequenceNode) and node.tag == _SEQ:
            return [self.value(item) for item in node.value]
        if isinstance(node, yaml.MappingNode) and node.tag == _MAP:
            return self._mapping(node)
        raise _error(f"the tag {node.tag} is not supported", node)

    def _mapping(self, node: Any) -> dict[str, Any]:
        own: dict[str, Any] = {}
        base: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                base = self._merged(value_node) | base
                continue
            key = _key(key_node)
            if key in own:
                raise _error(f"the key '{key}' appears twice in one mapping", key_node)
            own[key] = self.value(value_node)
        return base | own if base else own

    def _merged(self, node: Any) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(source, yaml.MappingNode):
                raise _error("'<<' must be given a mapping or a list of mappings", node)
            source_values = self.value(source)
            self._copied += len(source_values) + len(result)
            if self._copied > MAX_NODES:
                raise _error(f"'<<' merges more than {MAX_NODES} values", node)
            result = source_values | result
        return result


def _scalar(node: Any) -> Any:
    if node.tag == _STR:
        return node.value
    make = _MAKERS.get(node.tag)
    if make is None:
        raise _error(f"the tag {node.tag} is not supported", node)
    try:
        return make(node.value)
    except ValueError as error:
        raise _error(str(error), node) from error


def _key(node: Any) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _error("a key must be text, not a list or a mapping", node)
    key = _scalar(node)
    # JSON only has text keys. The usual client converts other scalar keys the same way.
    return key if isinstance(key, str) else json.dumps(key)


def _parse_whole_number(text: str) -> int:
    digits = text.lstrip("+-").replace("_", "")
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number of more than {_MAX_DIGITS} digits")
    base = {"0x": 16, "0o": 8}.get(digits[:2], 10)
    return int(digits[2:] if base != 10 else digits, base) * (-1 if text.startswith("-") else 1)


def _float(text: str) -> float:
    digits = text.replace("_", "").lower()
    return float(digits.replace(".inf", "inf").replace(".nan", "nan"))


_MAKERS: dict[str, Callable[[str], Any]] = {
    f"{_PREFIX}int": _parse_whole_number,
    f"{_PREFIX}float": _float,
    f"{_PREFIX}bool": lambda text: text[:1] in ("t", "T"),
    f"{_PREFIX}null": lambda _: None,
    _MERGE: str,
}


def _error(problem: str, node: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
