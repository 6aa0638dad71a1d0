"""Typed models of bodies and queries.

A handler names its models in its signature: `def create_group(ctx, request, body: NewGroup)`. A model is a frozen
dataclass. The field `add_users` is read from `addUsers` or `add_users`, with the tolerance of Determined's gateway:
numbers may be text, null counts as absent, unknown fields are ignored. A field without a default is required.

Metadata of a field:

- `name`: the name, if it is not the attribute in camelCase
- `also`: further spellings in a query
- `required`: for a model that inherits from one with defaults
- `most`: the largest number of entries in a list; for integers MOST_NAMED by default, None for no limit
- `null`: the value that null stands for, if null does not count as absent
- `items`: the model of the objects in a list, if the handler itself reads each object with `read`
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import Request
from det_controlplane.core.numerals import LARGEST, whole
from det_controlplane.core.problems import shown

MOST_NAMED = 10_000  # things that a request names one by one

M = TypeVar("M")
Values = Mapping[str, Any]
_DOCUMENT = dict[str, Any]


class _Type(NamedTuple):
    """The function that reads a value which is present (its second argument is the path), and the value's schema."""

    read: Callable[[Any, str], Any]
    schema: dict[str, Any]


class _Parameter(NamedTuple):
    """The function that reads a query parameter by its spellings, and the parameter's schema."""

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


def read_body(model: Any, request: Request) -> Any:
    """Return the model of a body.

    `dict[str, Any]` stands for a whole document, such as a template, and `list[Model]` for a list without a name.
    """
    if get_origin(model) is list:
        (item,) = get_args(model)
        return _objects_reader(item)(request.json_value() if request.body else [], "the body")
    values = request.json()
    return values if model == _DOCUMENT else read(model, values)


def read(model: type[M], values: Values, path: str = "") -> M:
    """Return the model of a JSON object; raise BadRequest with the path of a wrong field."""
    arguments: dict[str, Any] = {}
    for attribute, name, is_required, _, in_body, _, most, null in _fields(model):
        value = value_of(values, name)
        if value is not None:
            if most is not None and isinstance(value, list) and len(value) > most:
                raise BadRequest(
                    f"{path}{name} has more than {most} entries: send the rest separately"
                )
            arguments[attribute] = in_body.read(value, path + name)
        elif null is not None and (name in values or _snake(name) in values):
            arguments[attribute] = null
        if is_required and arguments.get(attribute) in (None, ""):
            raise BadRequest(f"{path}{name} is required")
    return model(**arguments)


def value_of(values: Values, name: str) -> Any:
    """Return the value of a field by its name in camelCase or with underscores; None if it is absent."""
    value = values.get(name)
    if value is not None or name.islower():
        return value
    return values.get(_snake(name))


def read_query(model: type[M], request: Request) -> M:
    """Return the model of a query; a parameter without a value has its default."""
    arguments: dict[str, Any] = {}
    for field in _fields(model):
        spellings = field.spellings
        if any(request.texts(*spellings)):
            arguments[field.attribute] = _IN_QUERY[field.annotation].read(request, *spellings)
        elif field.is_required:
            raise BadRequest(f"{field.name} is required")
    return model(**arguments)


def body_schema(model: Any) -> dict[str, Any]:
    """Return the JSON schema of a model."""
    schema: dict[str, Any] = {"type": "object"}
    if model == _DOCUMENT:
        return schema
    if get_origin(model) is list:
        return _list_schema(*get_args(model))
    if properties := {field.name: field.in_body.schema for field in _fields(model)}:
        schema["properties"] = dict(sorted(properties.items()))
    if required := [field.name for field in _fields(model) if field.is_required]:
        schema["required"] = sorted(required)
    return schema


def query_schemas(model: type) -> dict[str, dict[str, Any]]:
    """Return the schema of each parameter by its name."""
    return {
        field.name: _IN_QUERY[field.annotation].schema
        | ({"required": True} if field.is_required else {})
        for field in _fields(model)
    }


def parse_time(value: str, what: str) -> datetime:
    """Parse a time of RFC 3339, which may have more digits than Python keeps."""
    text = value.replace("Z", "+00:00").replace("z", "+00:00")
    if "." in text:
        head, _, tail = text.partition(".")
        digits = len(tail) - len(tail.lstrip("0123456789"))
        text = f"{head}.{tail[:digits][:6].ljust(6, '0')}{tail[digits:]}"
    try:
        time = datetime.fromisoformat(text)
        time = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
        time.astimezone(timezone.utc)  # PostgreSQL cannot store dates outside its calendar
    except (ValueError, OverflowError) as e:
        form = "a time like 2026-11-20T12:00:00Z (RFC 3339)"
        raise BadRequest(f"{what} must be {form}, not {value!r}") from e
    return time


def _wrong(path: str, form: str, value: Any) -> BadRequest:
    return BadRequest(f"{path} must be {form}, not {shown(value)}")


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _wrong(path, "a string", value)
    return value


def _integer(value: Any, path: str) -> int:
    number = value
    if isinstance(value, float) and value.is_integer():
        number = int(value)
    elif isinstance(value, str):  # 64-bit numbers travel as strings
        number = whole(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise _wrong(path, "an integer", value)
    if abs(number) > LARGEST:
        raise _wrong(path, "an integer of at most 64 bits", value)
    return number


def _number(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _wrong(path, "a number", value)
    try:
        return float(value)
    except ValueError as e:
        raise _wrong(path, "a number", value) from e
    except OverflowError as e:
        raise _wrong(path, "a number below 1.8e308", value) from e


def _flag(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(path, "true or false", value)
    return value


def _time(value: Any, path: str) -> datetime | None:
    text = _text(value, path)
    return parse_time(text, path) if text else None


def _object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(path, "an object", value)
    return value


def _items(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(path, "a list", value)
    return value


def _objects(value: Any, path: str) -> list[dict[str, Any]]:
    items = _items(value, path)
    for item in items:
        if not isinstance(item, dict):
            raise _wrong(path, "a list of objects", item)
    return items


def _list_of(read_item: Callable[[Any, str], Any]) -> Callable[[Any, str], list[Any]]:
    return lambda value, path: [read_item(item, path) for item in _items(value, path)]


def _query_time(request: Request, *names: str) -> datetime:
    return parse_time(request.text(*names), names[0])


_INTEGER = {"type": "string", "format": "int64", "description": "or a number"}
_NUMBER = {"type": "number"}
_TEXT = {"type": "string"}
_TIME = {"type": "string", "format": "date-time"}
_IN_BODY: dict[Any, _Type] = {
    str: _Type(_text, _TEXT),
    int: _Type(_integer, _INTEGER),
    float: _Type(_number, _NUMBER),
    bool: _Type(_flag, {"type": "boolean"}),
    datetime: _Type(_time, _TIME),
    _DOCUMENT: _Type(_object, {"type": "object"}),
    list[int]: _Type(_list_of(_integer), {"type": "array", "items": _INTEGER}),
    list[float]: _Type(_list_of(_number), {"type": "array", "items": _NUMBER}),
    list[str]: _Type(_list_of(lambda item, path: str(item)), {"type": "array", "items": _TEXT}),
    list[dict[str, Any]]: _Type(_objects, {"type": "array", "items": {"type": "object"}}),
    list[Any]: _Type(_items, {"type": "array", "items": {}}),
    Any: _Type(lambda value, path: value, {}),
}
_LIST = {"type": "array", "collectionFormat": "multi"}
_IN_QUERY: dict[Any, _Parameter] = {
    str: _Parameter(Request.text, _TEXT),
    int: _Parameter(Request.integer, {"type": "integer", "format": "int64"}),
    bool: _Parameter(Request.flag, {"type": "boolean"}),
    datetime: _Parameter(_query_time, _TIME),
    list[str]: _Parameter(Request.texts, {**_LIST, "items": _TEXT}),
    list[int]: _Parameter(Request.integers, {**_LIST, "items": {"type": "integer"}}),
}


def _type(field: Field[Any], annotation: Any) -> _Type:
    if annotation in _IN_BODY:
        base = _IN_BODY[annotation]
        if "items" not in field.metadata:
            return base
        return _Type(base.read, _list_schema(field.metadata["items"]))
    if is_dataclass(annotation) and isinstance(annotation, type):
        return _Type(_object_reader(annotation), body_schema(annotation))
    (item,) = get_args(annotation)
    return _Type(_objects_reader(item), _list_schema(item))


def _list_schema(model: type) -> dict[str, Any]:
    return {"type": "array", "items": body_schema(model)}


def _object_reader(model: type) -> Callable[[Any, str], Any]:
    return lambda value, path: read(model, _object(value, path), f"{path}.")


def _objects_reader(model: type) -> Callable[[Any, str], Any]:
    def read_objects(value: Any, path: str) -> list[Any]:
        return [read(model, each, f"{path}[{i}].") for i, each in enumerate(_objects(value, path))]

    return read_objects


def _fields(model: Any) -> tuple[_Field, ...]:
    if model not in _fields_of:
        _fields_of[model] = tuple(_describe_fields(model))
    return _fields_of[model]


_fields_of: dict[Any, tuple[_Field, ...]] = {}


def _describe_fields(model: Any) -> Iterator[_Field]:
    annotations = get_type_hints(model)
    for field in fields(model):
        name, annotation = _name(field), _without_none(annotations[field.name])
        has_no_default = field.default is MISSING and field.default_factory is MISSING
        is_required = has_no_default or field.metadata.get("required", False)
        spellings = tuple(dict.fromkeys((name, field.name, *field.metadata.get("also", ()))))
        most = field.metadata.get("most", MOST_NAMED if annotation == list[int] else None)
        in_body = _type(field, annotation)
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


@lru_cache(maxsize=1024)
def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
