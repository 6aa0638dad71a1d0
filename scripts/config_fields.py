"""The fields of the configurations as the code defines them: name, type, bounds and default."""

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from unittest import mock

from det_controlplane.core.config import experiment, fields
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.config.lengths import Length
from det_controlplane.core.config.reading import Reader
from pydantic import BaseModel
from pydantic.fields import FieldInfo

# Types that the page describes in words.
_WORDS: tuple[tuple[Any, str], ...] = (
    (fields.MaxLength, "[length](#lengths)"),
    (fields.Period, "[length](#lengths)"),
    (fields.Bytes, "size"),
    (fields.AbsolutePath, "absolute path"),
    (experiment.Hyperparameters, "[hyperparameters](#hyperparameters)"),
    (experiment.Entrypoint, "string or list of strings"),
)
_PLAIN = {bool: "boolean", str: "string", float: "number", int: "integer", Any: "anything"}
_BOUNDS = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
_UNREMARKABLE = (2**31 - 1, 2**53)
_WHOLE_CLUSTER: dict[str, Any] = {
    "resource_manager": {"scheduler": {}},
    "resource_pools": [
        {
            "pool_name": "default",
            "offers": [{"type": "aws", "region": "us-east-1"}],
            "task_container_defaults": {},
        }
    ],
    "security": {"oidc": {"issuer": "https://id.example", "client_id": "determined"}},
    "pipelines": [
        {"issuer": "https://ci.example", "user": "ci", "claims": {"repository": "me/mine"}}
    ],
}
# The fields of these sections are documented in another section, or on the page of experiments.
_DOCUMENTED_ELSEWHERE = (
    "resource_pools[].task_container_defaults",
    "checkpoint_storage",
    "pipelines[].claims",
)
# Separate pages document the fields of these sections and everything inside them.
_WITH_OWN_PAGES = ("resource_pools[].provider", "resource_pools[].offers")


@dataclass(frozen=True, slots=True)
class Field:
    section: str  # the enclosing object; empty at the top level
    name: str
    type: str
    default: str

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name


def fields_of_models(model: type[BaseModel], section: str = "") -> list[Field]:
    """Return the fields of a model, followed by the fields of its nested objects."""
    fields_here, inner = [], []
    hints = get_type_hints(model, include_extras=True)
    for name, info in model.model_fields.items():
        fields_here.append(Field(section, name, _type(hints[name]), _default(info)))
        inner += _fields_inside(f"{section}.{name}" if section else name, hints[name])
    return fields_here + inner


def _fields_inside(path: str, hint: Any) -> list[Field]:
    """Return the fields of the objects in a field: first the common fields of a union, then the fields of each kind."""
    kinds = list(_models_in(hint))
    if len(kinds) < 2:
        return [f for kind, many in kinds for f in fields_of_models(kind, path + "[]" * many)]
    fields_by_tag = {_tag_of(kind): fields_of_models(kind, path) for kind, _ in kinds}
    first = next(iter(fields_by_tag.values()))
    shared = [f for f in first if all(f in fields for fields in fields_by_tag.values())]
    specific = [
        replace(f, section=f.section.replace(path, f"{path} ({tag})", 1))
        for tag, fields in fields_by_tag.items()
        for f in fields
        if f not in shared
    ]
    return shared + specific


def fields_of_cluster() -> list[Field]:
    """Return the fields of a cluster configuration. They are recorded while the reader reads one."""
    fields_by_place: dict[tuple[str, str], Field] = {}

    def record(reader: Reader, key: str, type: str, default: Any) -> None:
        place = reader.path.replace("[0]", "[]")
        if place not in _DOCUMENTED_ELSEWHERE and not place.startswith(_WITH_OWN_PAGES):
            fields_by_place.setdefault((place, key), Field(place, key, type, _shown(default)))

    with mock.patch.multiple(Reader, **_spies(record)):
        load_cluster(_WHOLE_CLUSTER)
    return sorted(
        fields_by_place.values(), key=lambda f: f.section.count(".") * 2 + bool(f.section)
    )


def _spies(record: Callable[[Reader, str, str, Any], None]) -> dict[str, Any]:
    """Return replacements of Reader's methods that record their arguments first."""
    types_of: dict[str, Callable[..., tuple[str, Any]]] = {
        "text": lambda default, *_: ("string", default),
        "choice": lambda choices, default: (_one_of(choices), default),
        "flag": lambda default: ("boolean", default),
        "whole": lambda default, least, most, *_: (_bounded("integer", least, most), default),
        "size": lambda default: ("size", default),
        "seconds": lambda default: ("duration", default),
        "section": lambda: ("object", None),
        "items": lambda: ("list of objects", None),
        "object": lambda: ("object", None),
        "raw": lambda *_: ("anything", None),
    }
    return {
        method: _spy(getattr(Reader, method), describe, record)
        for method, describe in types_of.items()
    }


def _spy(method: Any, describe: Callable[..., tuple[str, Any]], record: Any) -> Any:
    def spy(self: Reader, key: str, *args: Any) -> Any:
        record(self, key, *describe(*args))
        return method(self, key, *args)

    return spy


def _bounded(words: str, least: int, most: int) -> str:
    return f"{words} ≥ {least}" if most in _UNREMARKABLE else f"{words} {least} – {most}"


def _one_of(choices: Any) -> str:
    return "one of " + ", ".join(f"`{choice}`" for choice in choices)


def _type(hint: Any) -> str:
    for known_type, words in _WORDS:
        if hint == known_type:
            return words
    if get_origin(hint) is Annotated:
        base, *extras = get_args(hint)
        return _type(base) + _bounds(extras)
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        return f"`{choices[0]}`" if len(choices) == 1 else _one_of(choices)
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [arg for arg in get_args(hint) if arg is not type(None)]
        return " or ".join(dict.fromkeys(map(_type, kinds)))
    if get_origin(hint) is tuple:
        return _list_of(_type(get_args(hint)[0]))
    return _PLAIN.get(hint, "object")


def _list_of(words: str) -> str:
    """Return the plural of a type: `list of integers ≥ 1`."""
    kind, *bounds = words.split(" ", 1)
    return " ".join([f"list of {kind}s", *bounds])


def _bounds(extras: list[Any]) -> str:
    rules = [rule for extra in extras for rule in getattr(extra, "metadata", [extra])]
    bounds = {
        words: f"{value:g}" if isinstance(value, float) else str(value)
        for name, words in _BOUNDS
        for rule in rules
        if (value := getattr(rule, name, None)) is not None and value not in _UNREMARKABLE
    }
    if set(bounds) == {"≥", "≤"}:
        return f" {bounds['≥']} – {bounds['≤']}"
    return f" {', '.join(f'{words} {value}' for words, value in bounds.items())}" if bounds else ""


def _models_in(hint: Any, is_list: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield hint, is_list
        return
    for arg in get_args(hint):
        yield from _models_in(arg, is_list or get_origin(hint) is tuple)


def _tag_of(model: type[BaseModel]) -> str:
    """Return the value that distinguishes one kind of a union from the others."""
    for key in ("type", "name"):
        info = model.model_fields.get(key)
        if info is not None and get_origin(info.annotation) is Literal:
            return str(get_args(info.annotation)[0])
    return ""


def _default(info: FieldInfo) -> str:
    return "required" if info.is_required() else _shown(info.get_default(call_default_factory=True))


def _shown(value: Any) -> str:
    if isinstance(value, BaseModel):
        return "see below"
    if value is None or value == "":
        return "–"
    if isinstance(value, Length):
        return f"`{{{value.unit}: {value.units}}}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "`[]`" if value == () else f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
