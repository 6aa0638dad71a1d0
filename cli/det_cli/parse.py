"""The arguments of a command, by argparse: built for that command alone."""

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from det_cli.declare import Arg, Command, OneOf, ReplacedArg, TextArg
from det_cli.errors import UsageError

if TYPE_CHECKING:
    from det_cli.find import Found


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"`{self.prog} --help` shows how it is called")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, and say so where options stand behind `--`."""
        found, left = self.parse_known_args(args, namespace)
        if left:
            behind = args and "--" in args and left[0].startswith("-")
            where = "; what stands behind `--` is no option: write it before" if behind else ""
            self.error(f"unrecognized arguments: {' '.join(left)}{where}")
        return found


def parse(found: "Found", options: "dict[str, str]") -> argparse.Namespace:
    assert isinstance(found.node, Command)
    parser = parser_for(found.path, found.node)
    args = parser.parse_args(found.rest)
    for arg in found.group_args:
        _tell_replaced(arg, "")
    for one in found.node.args:
        if isinstance(one, ReplacedArg):
            _tell_replaced(one, getattr(args, _destination(one)))
        elif isinstance(one, Arg) and not isinstance(one, TextArg):
            _refuse_empty(one, args)
    args.user = options.get("user")
    args.master = options.get("master")
    args.command_path = " ".join(found.path)
    args.group_options = found.group_options
    for key, value in found.node.values.items():
        setattr(args, key, value)
    return args


def _refuse_empty(arg: Arg, args: argparse.Namespace) -> None:
    """Refuse a name that is empty, as an unset variable leaves it: addresses would lead to something else."""
    if arg.names[0].startswith("-"):
        return
    given = getattr(args, _destination(arg))
    for word in given if isinstance(given, list) else [given]:
        if isinstance(word, str) and not word.strip():
            name = arg.options.get("metavar") or arg.names[0]
            raise UsageError(f"{name} is empty", "is the variable set that it comes from?")


def _destination(arg: Arg) -> str:
    return str(arg.options.get("dest") or arg.names[0].lstrip("-").replace("-", "_"))


def _tell_replaced(arg: Arg, given: "str | None") -> None:
    """Print what replaces an option of Determined. Raises UsageError where nothing does."""
    if not isinstance(arg, ReplacedArg) or given is None or given in arg.harmless:
        return
    sentence = f"{arg.names[0]} {arg.instead}"
    if arg.refused:
        raise UsageError(sentence, f"leave {arg.names[0]} out")
    from det_cli.render import say

    say(sentence)


def parser_for(path: "list[str]", command: Command) -> argparse.ArgumentParser:
    parser = _Parser(prog="det " + " ".join(path), description=_sentence(command.help))
    for arg in command.args:
        if isinstance(arg, OneOf):
            group = parser.add_mutually_exclusive_group()
            for one in arg.args:
                group.add_argument(*one.names, **one.options)
        else:
            hidden = {"help": argparse.SUPPRESS} if isinstance(arg, ReplacedArg) else {}
            parser.add_argument(*arg.names, **{**arg.options, **hidden})
    return parser


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
