"""Configuration files: reading them with error positions, and changing single fields of the text."""

import re
from collections.abc import Sequence
from typing import Any

import yaml

from det_cli.errors import CommandError, UsageError

_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")


# The control plane uses the same parser, so both report the same position for an error.
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Parser):  # type: ignore[misc]
    """Loads numbers as in YAML 1.2: 1e-3 is a number. PyYAML reads it as a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regex) for tag, regex in resolvers if tag != "tag:yaml.org,2002:float"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z"), list("-+.")
)


class _Dumper(yaml.SafeDumper):
    """Resolves plain scalars as the loader does, so that it adds no quotes or tags."""


_Dumper.yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


def read(path: str, changes: Sequence[str] = (), *, may_be_empty: bool = False) -> str:
    """Read a configuration file and apply the `--config` changes to its text."""
    try:
        with open(path, encoding="utf-8") as f:
            text = f.read()
    except UnicodeDecodeError as e:
        raise CommandError(
            f"{path} is no text in UTF-8: {e.reason} at byte {e.start}", "save it as UTF-8"
        ) from None
    is_empty = not any(line.partition("#")[0].strip() for line in text.splitlines())
    if is_empty and not changes and not may_be_empty:
        raise CommandError(f"{path} is empty", "is it saved, and is it the file that you meant?")
    return apply_changes(text, changes, path)


def apply_changes(
    text: str, changes: Sequence[str], name: str = "the configuration", option: str = "--config"
) -> str:
    node = _compose(text, name)
    if node is not None and not isinstance(node, yaml.MappingNode):
        raise CommandError(f"{name} is not a mapping of fields", "start it with `name: …`")
    if not changes:
        return text
    # Nodes keep every scalar as the user wrote it. Loading and dumping would reformat scalars.
    root = node or yaml.MappingNode("tag:yaml.org,2002:map", [])
    for change in changes:
        key, eq, value = change.partition("=")
        if not eq or not key:
            raise UsageError(f"{option} {change!r} is not KEY=VALUE", f"write {option} a.b=c")
        _assign(root, key, _value_node(value, change))
    return yaml.serialize(root, Dumper=_Dumper, width=1000)


def load(text: str, name: str = "the configuration") -> dict[str, Any]:
    try:
        content = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as e:
        raise _yaml_error(e, name) from e
    return content if isinstance(content, dict) else {}


def _compose(text: str, name: str) -> "yaml.Node | None":
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as e:
        raise _yaml_error(e, name) from e


def _yaml_error(error: yaml.YAMLError, name: str) -> CommandError:
    mark = getattr(error, "problem_mark", None)
    where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    problem = getattr(error, "problem", None) or str(error)
    return CommandError(f"{name}{where} is not valid YAML: {problem}")


def _value_node(value: str, change: str) -> yaml.Node:
    whole = value.lstrip().startswith(("[", "{", '"', "'"))
    text = f"[{value}]" if "," in value and not whole else value
    node = _compose(text, f"the value of --config {change!r}")
    return node or yaml.ScalarNode("tag:yaml.org,2002:null", "null")


def _assign(root: yaml.MappingNode, dotted: str, value: yaml.Node) -> None:
    node = root
    *parents, last = dotted.split(".")
    for i, part in enumerate(parents):
        child = _get(node, part)
        if child is None or child.tag == "tag:yaml.org,2002:null":
            child = yaml.MappingNode("tag:yaml.org,2002:map", [], flow_style=False)
            _put(node, part, child)
        if not isinstance(child, yaml.MappingNode):
            path = ".".join(parents[: i + 1])
            raise UsageError(f"--config {dotted}: '{path}' is not a mapping of fields")
        node = child
    _put(node, last, value)


def _get(node: yaml.MappingNode, key: str) -> "yaml.Node | None":
    return next((v for k, v in node.value if k.value == key), None)


def _put(node: yaml.MappingNode, key: str, value: yaml.Node) -> None:
    """Set a field. A mapping is merged into an existing mapping, as Determined's client does."""
    for i, (name, current) in enumerate(node.value):
        if name.value == key:
            if isinstance(current, yaml.MappingNode) and isinstance(value, yaml.MappingNode):
                for inner, inner_value in value.value:
                    _put(current, inner.value, inner_value)
            else:
                node.value[i] = (name, value)
            return
    node.value.append((yaml.ScalarNode("tag:yaml.org,2002:str", key), value))
