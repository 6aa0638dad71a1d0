"""Help for `det` and its groups. The help of a single command comes from its parser."""

from typing import TYPE_CHECKING

from det_cli.catalog import ENTRIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from det_cli.find import Match

_TOP = """\
usage: det [-u NAME] [-m ADDRESS] [-v] COMMAND ...

Train deep-learning models on a cluster.

commands:
{commands}

options:
  -u, --user NAME       act as this user
  -m, --master ADDRESS  the cluster to talk to (default: DET_MASTER, else localhost:8080)
  -v, --version         print the version of this client
  -h, --help            print this help, or the help of a command
"""


def print_top() -> None:
    rows = [(name, aliases, text) for name, aliases, _, text in ENTRIES]
    print(_TOP.format(commands=_format_rows(rows)), end="")


def print_group(match: "Match") -> int:
    from det_cli.declare import Command, Group

    if isinstance(match.node, Command):
        from det_cli.parse import parser_for

        print(parser_for(match.path, match.node).format_help(), end="")
        return 0
    assert isinstance(match.node, Group)
    rows = [(m.name, m.aliases, m.help) for m in match.node.members]
    path = " ".join(["det", *match.path])
    print(f"usage: {path} COMMAND ...\n\n{match.node.help}\n\ncommands:\n{_format_rows(rows)}\n")
    print(f"`{path} COMMAND --help` explains one of them.")
    return 0


def _format_rows(rows: "Sequence[tuple[str, Sequence[str], str]]") -> str:
    names = [f"{name} ({', '.join(aliases)})" if aliases else name for name, aliases, _ in rows]
    width = max(map(len, names)) + 2
    return "\n".join(f"  {n:<{width}}{text}" for n, (_, _, text) in zip(names, rows, strict=True))
