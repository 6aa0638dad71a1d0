"""Translate pydantic's errors to messages that name the field, the problem and the allowed values."""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from det_controlplane.core.config.environment import SLOT_KINDS
from det_controlplane.core.config.fields import ModelProblems, bare_kind, is_kind_tag
from det_controlplane.core.config.reading import unknown_key
from det_controlplane.core.config.searchers import NAMES, REMOVED
from det_controlplane.core.config.storage import KINDS
from det_controlplane.core.problems import Problem, shown

Location = Sequence[str | int]

_OF_A_SLOT_KIND = re.compile(rf"^(environment\.\w+)\.(?:{'|'.join(SLOT_KINDS)})(\[\d+\])?$")

_WANTED = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "tuple": "a list",
    "list": "a list",
    "dict": "an object",
    "model": "an object",
    "union": "an object",
}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("greater than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
_NEEDED = {
    "searcher": "is required: how to search, for example {name: single, metric: validation_loss}",
    "searcher.name": f"is required; choose one of {', '.join(NAMES)}",
    "searcher.metric": "is required: the validation metric that decides, for example validation_loss",
    "checkpoint_storage": "is required: neither this configuration nor the cluster says where checkpoints go",
    "checkpoint_storage.type": f"is required; choose one of {', '.join(KINDS)}",
}
_REMOVED_STORAGE = {"hdfs": "was removed; use shared_fs, directory, s3, gcs or azure"}


def problems_of(
    error: ValidationError,
    model: type[BaseModel],
    without: Container[str] = (),
    except_for: Callable[[Any], bool] = lambda details: False,
) -> list[Problem]:
    """Return all problems in the order of the fields, without the errors for which `except_for` returns True.

    Messages about unknown keys do not suggest the fields in `without`."""
    problems: list[Problem] = []
    for details in error.errors(include_url=False):
        if not except_for(details):
            problems.extend(_translate_error(details, model, without))
    return _as_submitted(problems)


def _as_submitted(problems: list[Problem]) -> list[Problem]:
    """Merge the problems of a value that was copied to all slot kinds, such as an image."""
    general = [Problem(_OF_A_SLOT_KIND.sub(r"\1\2", p.path), p.message) for p in problems]
    times = Counter(general)
    result = (
        g if times[g] == len(SLOT_KINDS) else p for g, p in zip(general, problems, strict=True)
    )
    return list(dict.fromkeys(result))


def path_of(location: Location) -> str:
    """Format `("bind_mounts", 0, "host_path")` as `bind_mounts[0].host_path`."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not is_kind_tag(part):
            path += f".{part}" if path else part
    return path


def _translate_error(
    details: Any, model: type[BaseModel], without: Container[str]
) -> Iterator[Problem]:
    path, kind = path_of(details["loc"]), details["type"]
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, ModelProblems):
        for inner in cause.problems:
            yield Problem(_join_paths(path, inner.path), inner.message)
    elif kind == "extra_forbidden" and len(details["loc"]) == 1:
        allowed = [name for name in model.model_fields if name not in without]
        yield Problem(path, unknown_key(path, allowed))
    elif kind == "wrong_kind" and isinstance(details["input"], dict):
        yield _wrong_kind(path, details["ctx"]["key"], details["input"])
    else:
        yield Problem(path, _sentence(path, kind, details, model))


def _join_paths(path: str, inner: str) -> str:
    inner = inner.lstrip(".")
    joint = "." if path and inner and not inner.startswith("[") else ""
    return path + joint + inner


def _wrong_kind(path: str, key: str, raw: dict[str, Any]) -> Problem:
    where, value = f"{path}.{key}", raw.get(key)
    if value is None:
        return Problem(where, _NEEDED.get(where, "is required"))
    allowed = NAMES if key == "name" else KINDS
    removed = REMOVED if key == "name" else _REMOVED_STORAGE
    if isinstance(value, str) and value in removed:
        return Problem(where, f"{value} {removed[value]}")
    return Problem(where, f"must be one of {', '.join(allowed)}, not {shown(value)}")


def _sentence(path: str, kind: str, details: Any, model: type[BaseModel]) -> str:
    context, value = details.get("ctx", {}), shown(details["input"])
    if kind == "missing":
        return _NEEDED.get(path, "is required")
    if kind == "extra_forbidden":
        return unknown_key(str(details["loc"][-1]), keys_at(model, details["loc"][:-1]))
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        limit = context[bound]
        exact = limit if isinstance(limit, int) else f"{limit:g}"
        return f"must be {words} {exact}, not {value}"
    if kind == "literal_error":
        return f"must be one of {context['expected']}, not {value}"
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "string_too_long":
        return f"must have at most {context['max_length']} characters"
    if kind == "too_long":
        return f"must have at most {context['max_length']} entries"
    if kind == "value_error":
        return str(context["error"])
    if kind == "wrong_kind":
        return f"must be an object, not {value}"
    if kind == "dict_type" and path == "data":
        return f"must be a list of data sets, each with source and at, or an object, not {value}"
    requirement = _WANTED.get(kind.split("_")[0])
    return f"must be {requirement}, not {value}" if requirement else str(details["msg"])


def keys_at(model: type[BaseModel], location: Location) -> list[str]:
    """Return the keys of the section at a path."""
    models = [model]
    for part in location:
        if is_kind_tag(part):
            models = [m for m in models if bare_kind(str(part)) in _kinds_of(m)] or models
        elif isinstance(part, str):
            models = list(_models_in(models[0].model_fields[part].annotation))
    return list(models[0].model_fields)


def _kinds_of(model: type[BaseModel]) -> tuple[Any, ...]:
    field = model.model_fields.get("name") or model.model_fields.get("type")
    return get_args(field.annotation) if field else ()


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)
