"""Ids of imported clusters on the command line: old:17, or old:NAME/17 for one of several imports."""

import argparse
from typing import TYPE_CHECKING, Any

from det_cli.connection import V1, connect
from det_cli.declare import Arg, Command, IdArg
from det_cli.parse import destination

if TYPE_CHECKING:
    from determined.common.http import Session

_PREFIX = "old:"


def resolve(args: argparse.Namespace, command: Command) -> None:
    """Replace old ids in the arguments of a command by the ids in this cluster."""
    session = None
    for arg in _arguments(command):
        name = destination(arg)
        value = getattr(args, name)
        if isinstance(arg, IdArg) and _has_old_id(value):
            session = session or connect(args)
            setattr(args, name, _resolved(session, arg, value))


def _arguments(command: Command) -> "list[Arg]":
    arguments: list[Arg] = []
    for each in command.args:
        arguments.extend([each] if isinstance(each, Arg) else each.args)
    return arguments


def _has_old_id(value: Any) -> bool:
    words = value if isinstance(value, list) else [value]
    return any(isinstance(word, str) and _PREFIX in word for word in words)


def _resolved(session: "Session", arg: IdArg, value: Any) -> Any:
    if isinstance(value, list):
        return [_resolved(session, arg, word) for word in value]
    if not isinstance(value, str):
        return value
    ids = ",".join(_new_id(session, arg.kind, part) for part in value.split(","))
    return arg.options.get("type", str)(ids)


def _new_id(session: "Session", kind: str, word: str) -> str:
    if not word.startswith(_PREFIX):
        return word
    answer = session.get(f"{V1}/imports/new-id", {"kind": kind, "reference": word})
    return str(answer["id"])
