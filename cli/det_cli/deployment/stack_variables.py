"""Validation of `--var` against the variables of a stack, because Terraform ignores unknown names."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from det_cli.errors import UsageError

_BLOCK = re.compile(r'^variable "(\w+)" \{\n(.*?)^\}', re.M | re.S)
_TYPE = re.compile(r"^  type += (\w+)", re.M)
_NULL = re.compile(r"^  default += null$", re.M)
# The YAML types for each Terraform type. Terraform converts numbers to strings.
_ACCEPTED: dict[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "number": ((int, float), "a number"),
    "string": ((str, int, float), "a text"),
    "list": ((list,), "a list, as in '[one, two]'"),
    "map": ((dict,), "a mapping, as in '{name: value}'"),
    "object": ((dict,), "a mapping, as in '{name: value}'"),
}


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a stack, with the first word of its type."""

    type: str
    may_be_null: bool


def check(stack: Path, variables: Mapping[str, Any], stored: Collection[str] = ()) -> None:
    """Raise UsageError for variables that the stack does not have, or with a value of another type.

    `stored` names the variables from the previous run.
    """
    declared = declared_in(stack)
    for name, value in variables.items():
        if name not in declared:
            near = get_close_matches(name, declared, 1)
            hint = (
                f"did you mean --var {near[0]}=…?"
                if near
                else "docs/reference/terraform.md lists all"
            )
            raise UsageError(f"--var {name}: the stack has no such variable", hint)
        problem = _problem(declared[name], value)
        if problem:
            again = f"give --var {name}=VALUE"
            forget = ", or --forget-options: the value is from the previous run"
            raise UsageError(f"--var {name} {problem}", again + (forget if name in stored else ""))


def _problem(variable: Variable, value: Any) -> str:
    """Return the problem of a value, or ''."""
    if value is None:
        return "" if variable.may_be_null else "has no value"
    types, words = _ACCEPTED.get(variable.type, ((object,), ""))
    is_flag = isinstance(value, bool) and bool not in types and object not in types
    return f"must be {words}, not {value!r}" if is_flag or not isinstance(value, types) else ""


def declared_in(stack: Path) -> dict[str, Variable]:
    """Return the variables of a stack."""
    text = (stack / "variables.tf").read_text()
    return {
        name: Variable(
            type_match[1] if (type_match := _TYPE.search(body)) else "any", bool(_NULL.search(body))
        )
        for name, body in _BLOCK.findall(text)
    }


# The pattern and its description for each type of storage.
_BUCKET_NAMES = {
    "s3": (
        r"(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
        "lowercase letters, digits, hyphens and dots",
    ),
    "gcs": (
        r"(?!.*\.\.)[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]",
        "lowercase letters, digits, hyphens, dots and underscores",
    ),
}


def check_bucket_name(storage_type: str, name: str) -> None:
    """Raise UsageError for an invalid bucket name."""
    form, words = _BUCKET_NAMES[storage_type]
    if not re.fullmatch(form, name):
        raise UsageError(
            f"--var bucket={name} is not a valid bucket name",
            f"use 3 to 63 {words}, with a letter or digit at both ends",
        )
