"""Templates: parts of configurations of any kind, refused where no kind would take them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from det_controlplane.core.config.experiment import ExperimentConfig
from det_controlplane.core.config.fields import ModelProblems
from det_controlplane.core.config.legacy import shim
from det_controlplane.core.config.messages import keys_at, problems_of
from det_controlplane.core.config.suggestions import unknown_key
from det_controlplane.core.config.tasks import TaskConfig
from det_controlplane.core.problems import Problem

_KINDS: tuple[type[BaseModel], ...] = (ExperimentConfig, TaskConfig)
_INDEX = re.compile(r"\[\d+\]")


def fragment_problems(template: Mapping[str, Any]) -> list[Problem]:
    """Tell what neither experiments nor tasks would take, whatever is submitted over it."""
    config = shim(template)[0]
    of_kinds = [_refused(config, kind) for kind in _KINDS]
    found: dict[str, Problem] = {}
    for faults in of_kinds:
        for path, message in faults.items():
            if all(_covers(others, path) for others in of_kinds):
                found.setdefault(path, Problem(path, _of_any_kind(path, message, of_kinds)))
    return list(found.values())


def blamed(
    problems: Iterable[Problem], submitted: Mapping[str, Any], template: Any, name: str
) -> Iterator[Problem]:
    """Name the template in each problem of what it says, and what was submitted does not."""
    own = shim(submitted)[0]
    given = shim(template)[0] if isinstance(template, Mapping) else {}
    for problem in problems:
        keys = _INDEX.sub("", problem.path).split(".")
        is_of_template = _depth(given, keys) > _depth(own, keys)
        told = f"{problem.message} (template '{name}' says so)"
        yield Problem(problem.path, told) if is_of_template else problem


def _refused(config: dict[str, Any], kind: type[BaseModel]) -> dict[str, str]:
    try:
        kind.model_validate(config)
    except ValidationError as error:
        found = problems_of(error, kind, but_not=_is_unfinished)
        return {problem.path: problem.message for problem in found}
    return {}


def _is_unfinished(details: Any) -> bool:
    """Return whether what is submitted over a template may mend a fault, as a key that is lacking."""
    context, given = details.get("ctx", {}), details["input"]
    if details["type"] == "wrong_kind" and isinstance(given, Mapping):
        return given.get(context["key"]) is None
    return details["type"] == "missing" or isinstance(context.get("error"), ModelProblems)


def _covers(faults: Iterable[str], path: str) -> bool:
    return any(path == fault or path.startswith((f"{fault}.", f"{fault}[")) for fault in faults)


def _of_any_kind(path: str, message: str, of_kinds: list[dict[str, str]]) -> str:
    """Tell an unknown key of those of every kind, where all have its section."""
    if not all(faults.get(path, "").startswith("is unknown") for faults in of_kinds):
        return message
    *section, key = _INDEX.sub("", path).split(".")
    try:
        return unknown_key(key, {name for kind in _KINDS for name in keys_at(kind, section)})
    except KeyError:  # the key itself has a dot
        return message


def _depth(config: Any, keys: list[str]) -> int:
    """Return how many keys of a path there are."""
    depth = 0
    while depth < len(keys) and isinstance(config, Mapping) and keys[depth] in config:
        config, depth = config[keys[depth]], depth + 1
    return depth
