"""Check templates. A template may contain parts of configurations of all kinds of work."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from det_controlplane.core.config.experiment import ExperimentConfig
from det_controlplane.core.config.fields import ModelProblems
from det_controlplane.core.config.legacy import shim
from det_controlplane.core.config.messages import keys_at, problems_of
from det_controlplane.core.config.reading import unknown_key
from det_controlplane.core.config.tasks import TaskConfig
from det_controlplane.core.problems import Problem

_KINDS: tuple[type[BaseModel], ...] = (ExperimentConfig, TaskConfig)
_INDEX = re.compile(r"\[\d+\]")


def fragment_problems(template: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of a template that no submitted configuration can fix, for experiments and for tasks."""
    config = shim(template)[0]
    by_kind = [_find_problems(config, kind) for kind in _KINDS]
    problems: dict[str, Problem] = {}
    for faults in by_kind:
        for path, message in faults.items():
            if all(_covers(others, path) for others in by_kind):
                problems.setdefault(path, Problem(path, _of_any_kind(path, message, by_kind)))
    return list(problems.values())


def with_template_name(
    problems: Iterable[Problem], submitted: Mapping[str, Any], template: Any, name: str
) -> Iterator[Problem]:
    """Add the template's name to each problem that comes from the template."""
    own = shim(submitted)[0]
    from_template = shim(template)[0] if isinstance(template, Mapping) else {}
    for problem in problems:
        keys = _INDEX.sub("", problem.path).split(".")
        is_of_template = _depth(from_template, keys) > _depth(own, keys)
        message = f"{problem.message} (template '{name}' says so)"
        yield Problem(problem.path, message) if is_of_template else problem


def _find_problems(config: dict[str, Any], kind: type[BaseModel]) -> dict[str, str]:
    try:
        kind.model_validate(config)
    except ValidationError as error:
        problems = problems_of(error, kind, except_for=_is_unfinished)
        return {problem.path: problem.message for problem in problems}
    return {}


def _is_unfinished(details: Any) -> bool:
    """Return whether a submitted configuration can fix the problem, for example by a missing key."""
    context, value = details.get("ctx", {}), details["input"]
    if details["type"] == "wrong_kind" and isinstance(value, Mapping):
        return value.get(context["key"]) is None
    return details["type"] == "missing" or isinstance(context.get("error"), ModelProblems)


def _covers(faults: Iterable[str], path: str) -> bool:
    return any(path == fault or path.startswith((f"{fault}.", f"{fault}[")) for fault in faults)


def _of_any_kind(path: str, message: str, by_kind: list[dict[str, str]]) -> str:
    """Return the message with the keys of all kinds, if the key is unknown in every kind."""
    if not all(faults.get(path, "").startswith("is unknown") for faults in by_kind):
        return message
    *section, key = _INDEX.sub("", path).split(".")
    try:
        return unknown_key(key, {name for kind in _KINDS for name in keys_at(kind, section)})
    except KeyError:  # the key itself has a dot
        return message


def _depth(config: Any, keys: list[str]) -> int:
    """Return the number of leading keys of a path that exist in the configuration."""
    depth = 0
    while depth < len(keys) and isinstance(config, Mapping) and keys[depth] in config:
        config, depth = config[keys[depth]], depth + 1
    return depth
