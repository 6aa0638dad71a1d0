"""Typed models of bodies and queries.

A handler names its models in its signature: `def create_group(ctx, request, body: NewGroup)`. A model is a frozen
dataclass. The field `add_users` is read from `addUsers` or `add_users`, with the tolerance of Determined's gateway:
numbers may be text, null counts as absent, unknown fields are ignored. A field without a default is required.

Metadata of a field:

- `name`: the name, if it is not the attribute in camelCase
- `also`: further spellings in a query
- `required`: for a model that inherits from one with defaults
- `most`: the largest number of entries in a list; for numbers MOST_NAMED by default, None for no limit
- `null`: the value that null stands for, if null does not count as absent
"""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from det_controlplane.api.body import MOST_NAMED, Body
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import Request

M = TypeVar("M")
_INTEGER = {"type": "string", "format": "int64", "description": "or a number"}
_TEXT = {"type": "string"}


class _Type(NamedTuple):
    """The method that reads a value which is present, and the value's schema."""

    read: Callable[..., Any]
    schema: dict[str, Any]


class _Field(NamedTuple):
    attribute: str
    name: str  # camelCase, as Determined's clients write it
    is_required: bool
    annotation: Any  # without None
    in_body: _Type
    spellings: tuple[str, ...]  # in a query
    most: int | None  # entries of a list
    null: Any


def _integers(body: Body, name: str) -> list[int]:
    return [Body({name: item}, body.path).integer(name) for item in body.items(name)]


def _texts(body: Body, name: str) -> list[str]:
    return [str(item) for item in body.items(name)]


_IN_BODY: dict[Any, _Type] = {
    str: _Type(Body.text, _TEXT),
    int: _Type(Body.integer, _INTEGER),
    float: _Type(Body.number, {"type": "number"}),
    bool: _Type(Body.flag, {"type": "boolean"}),
    datetime: _Type(Body.time, {"type": "string", "format": "date-time"}),
    dict[str, Any]: _Type(Body.object, {"type": "object"}),
    list[int]: _Type(_integers, {"type": "array", "items": _INTEGER}),
    list[str]: _Type(_texts, {"type": "array", "items": _TEXT}),
    list[Any]: _Type(Body.items, {"type": "array", "items": {}}),
    Any: _Type(Body.raw, {}),
}
_LIST = {"type": "array", "collectionFormat": "multi"}
_IN_QUERY: dict[Any, _Type] = {
    str: _Type(Request.text, _TEXT),
    int: _Type(Request.integer, {"type": "integer", "format": "int64"}),
    bool: _Type(Request.flag, {"type": "boolean"}),
    list[str]: _Type(Request.texts, {**_LIST, "items": _TEXT}),
    list[int]: _Type(Request.integers, {**_LIST, "items": {"type": "integer"}}),
}


def read_body(model: type[M], request: Request) -> M:
    return read(model, Body(request.json()))


def read(model: type[M], body: Body) -> M:
    """Return the model of a JSON object; raise BadRequest with the name of a wrong field."""
    values: dict[str, Any] = {}
    for field in _fields(model):
        if body.raw(field.name) is not None:
            if field.most is not None:
                body.refuse_more(field.name, field.most)
            values[field.attribute] = field.in_body.read(body, field.name)
        elif field.null is not None and body.has(field.name):
            values[field.attribute] = field.null
        if field.is_required and values.get(field.attribute) in (None, ""):
            raise BadRequest(f"{body.path}{field.name} is required")
    return model(**values)


def read_query(model: type[M], request: Request) -> M:
    """Return the model of a query; a parameter without a value has its default."""
    values: dict[str, Any] = {}
    for field in _fields(model):
        spellings = field.spellings
        if any(request.texts(*spellings)):
            values[field.attribute] = _IN_QUERY[field.annotation].read(request, *spellings)
    return model(**values)


def body_schema(model: type) -> dict[str, Any]:
    """Return the JSON schema of a model."""
    schema: dict[str, Any] = {"type": "object"}
    if properties := {field.name: field.in_body.schema for field in _fields(model)}:
        schema["properties"] = dict(sorted(properties.items()))
    if required := [field.name for field in _fields(model) if field.is_required]:
        schema["required"] = sorted(required)
    return schema


def query_schemas(model: type) -> dict[str, dict[str, Any]]:
    """Return the schema of each parameter by its name."""
    return {field.name: _IN_QUERY[field.annotation].schema for field in _fields(model)}


def _type(annotation: Any) -> _Type:
    if annotation in _IN_BODY:
        return _IN_BODY[annotation]
    if is_dataclass(annotation) and isinstance(annotation, type):
        return _Type(lambda body, name: read(annotation, body.body(name)), body_schema(annotation))
    (item,) = get_args(annotation)
    items = {"type": "array", "items": body_schema(item)}
    return _Type(lambda body, name: [read(item, each) for each in body.bodies(name)], items)


def _fields(model: Any) -> tuple[_Field, ...]:
    if model not in _fields_of:
        _fields_of[model] = tuple(_described(model))
    return _fields_of[model]


_fields_of: dict[Any, tuple[_Field, ...]] = {}


def _described(model: Any) -> Iterator[_Field]:
    annotations = get_type_hints(model)
    for field in fields(model):
        name, annotation = _name(field), _without_none(annotations[field.name])
        has_no_default = field.default is MISSING and field.default_factory is MISSING
        is_required = has_no_default or field.metadata.get("required", False)
        spellings = tuple(dict.fromkeys((name, field.name, *field.metadata.get("also", ()))))
        most = field.metadata.get("most", MOST_NAMED if annotation == list[int] else None)
        in_body = _type(annotation)
        null = field.metadata.get("null")
        yield _Field(field.name, name, is_required, annotation, in_body, spellings, most, null)


def _without_none(annotation: Any) -> Any:
    """Return `T` for `T | None`."""
    options = [option for option in get_args(annotation) if option is not type(None)]
    is_optional = get_origin(annotation) is not list and len(options) < len(get_args(annotation))
    return options[0] if is_optional else annotation


def _name(field: Field[Any]) -> str:
    """Return the name in camelCase, or the one in the field's metadata."""
    first, *rest = field.name.split("_")
    camel = first + "".join(word.capitalize() for word in rest)
    return str(field.metadata.get("name", camel))
