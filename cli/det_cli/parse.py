"""Argument parsing. The argparse parser is built for one command only."""

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from det_cli.declare import Arg, Command, OneOf, ReplacedArg, TextArg
from det_cli.errors import UsageError

if TYPE_CHECKING:
    from det_cli.find import Match


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"`{self.prog} --help` shows how it is called")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does. The error for options after `--` explains the cause."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            behind = args and "--" in args and unknown[0].startswith("-")
            where = (
                "; words after `--` are not options: move the option before it" if behind else ""
            )
            options = [o for o in self._option_string_actions if o.startswith("--")]
            guess = _closest(unknown[0], options) if not where else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{where}{guess}")
        return parsed


def _closest(word: str, options: "list[str]") -> str:
    """Return a suggestion for a misspelt option."""
    import difflib

    near = difflib.get_close_matches(word.partition("=")[0], options, 1, 0.75)
    return f"; did you mean {near[0]}?" if near and word.startswith("--") else ""


def parse(match: "Match", options: "dict[str, str]") -> argparse.Namespace:
    assert isinstance(match.node, Command)
    parser = parser_for(match.path, match.node)
    args = parser.parse_args(match.rest)
    for arg in match.group_args:
        _report_replaced(arg, "")
    for one in match.node.args:
        if isinstance(one, ReplacedArg):
            _report_replaced(one, getattr(args, destination(one)))
        elif isinstance(one, Arg) and not isinstance(one, TextArg):
            _reject_empty(one, args)
    args.user = options.get("user")
    args.master = options.get("master")
    args.command_path = " ".join(match.path)
    args.group_options = match.group_options
    for key, value in match.node.values.items():
        setattr(args, key, value)
    return args


def _reject_empty(arg: Arg, args: argparse.Namespace) -> None:
    """Raise UsageError for an empty name, as from an unset shell variable.

    An empty name would request another URL, such as the list instead of an object.
    """
    if arg.names[0].startswith("-"):
        return
    value = getattr(args, destination(arg))
    for word in value if isinstance(value, list) else [value]:
        if isinstance(word, str) and not word.strip():
            name = arg.options.get("metavar") or arg.names[0]
            raise UsageError(f"{name} is empty", "is the shell variable set?")


def destination(arg: Arg) -> str:
    long = next((name for name in arg.names if name.startswith("--")), arg.names[0])
    return str(arg.options.get("dest") or long.lstrip("-").replace("-", "_"))


def _report_replaced(arg: Arg, value: "str | None") -> None:
    """Print the replacement of a Determined option. Raise UsageError if the option is refused."""
    if not isinstance(arg, ReplacedArg) or value is None or value in arg.harmless:
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
