"""Hold what `--var` gives against the variables of a stack: Terraform passes over names that it does not know."""

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
# How Terraform's types are given in YAML; it makes texts of numbers itself.
_TAKEN: dict[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "number": ((int, float), "a number"),
    "string": ((str, int, float), "a text"),
    "list": ((list,), "a list, as in '[one, two]'"),
    "map": ((dict,), "a mapping, as in '{name: value}'"),
    "object": ((dict,), "a mapping, as in '{name: value}'"),
}


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a stack: the first word of its type, and whether it may have no value."""

    type: str
    may_be_null: bool


def check(stack: Path, given: Mapping[str, Any], kept: Collection[str] = ()) -> None:
    """Refuse variables that the stack of a folder does not have, or of another type. Raises UsageError.

    Those that are `kept` were not given now, but the last time.
    """
    declared = declared_in(stack)
    for name, value in given.items():
        if name not in declared:
            near = get_close_matches(name, declared, 1)
            meant = f"--var {near[0]}=… is one" if near else "docs/reference/terraform.md has all"
            raise UsageError(f"--var {name}: the stack has no such variable", meant)
        wrong = _wrong(declared[name], value)
        if wrong:
            again = f"give --var {name}=VALUE"
            forget = ", or --forget-options: the value is that of the last time"
            raise UsageError(f"--var {name} {wrong}", again + (forget if name in kept else ""))


def _wrong(variable: Variable, value: Any) -> str:
    """Return why a value is wrong; empty for a good one."""
    if value is None:
        return "" if variable.may_be_null else "has no value"
    types, words = _TAKEN.get(variable.type, ((object,), ""))
    is_flag = isinstance(value, bool) and bool not in types and object not in types
    return f"must be {words}, not {value!r}" if is_flag or not isinstance(value, types) else ""


def declared_in(stack: Path) -> dict[str, Variable]:
    """Return the variables of a stack."""
    text = (stack / "variables.tf").read_text()
    return {
        name: Variable(
            found[1] if (found := _TYPE.search(body)) else "any", bool(_NULL.search(body))
        )
        for name, body in _BLOCK.findall(text)
    }
