"""The words a command line is declared with. Kept free of imports: every command pays for them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def count(text: str) -> int:
    """Read how many there are to be."""
    from argparse import ArgumentTypeError

    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"must be a number, 0 or more, not {text!r}")
    return int(text)


def web_address(text: str) -> str:
    """Read an address of the web, with its scheme."""
    from argparse import ArgumentTypeError
    from urllib.parse import urlsplit

    if urlsplit(text).scheme not in ("http", "https") or not urlsplit(text).netloc:
        raise ArgumentTypeError(f"must be an address like https://HOST:PORT, not {text!r}")
    return text.rstrip("/")


class Arg:
    """An argument, in argparse's terms; it is built only when its command runs."""

    def __init__(self, *names: str, **options: "Any") -> None:
        self.names = names
        self.options = options


class TextArg(Arg):
    """An argument that is a text or words for another program, and may be empty: it does not name a thing."""


class ReplacedArg(Arg):
    """An option of Determined's command that is understood, and answered by a sentence on what stands in its place.

    It ends the command where the caller would otherwise get another cluster than the one that was asked for. Values
    of which that is not true are `harmless`. Help leaves these options out, the reference page tells them.
    """

    def __init__(
        self,
        *names: str,
        instead: str,
        refused: bool = False,
        harmless: "Sequence[str]" = (),
        **options: "Any",
    ) -> None:
        super().__init__(*names, **options)
        self.instead = instead
        self.refused = refused
        self.harmless = tuple(harmless)


def replaced_flag(*names: str, instead: str, refused: bool = False) -> ReplacedArg:
    """Return such an option that takes no value."""
    return ReplacedArg(
        *names, instead=instead, refused=refused, action="store_const", const="", default=None
    )


class OneOf:
    """Arguments of which at most one may be given."""

    def __init__(self, *args: Arg) -> None:
        self.args = args


class Command:
    def __init__(
        self,
        name: str,
        help: str,
        run: str,
        *args: "Arg | OneOf",
        aliases: "Sequence[str]" = (),
        values: "dict[str, Any] | None" = None,
    ) -> None:
        self.name = name
        self.help = help
        self.run = run  # "module:function" below det_cli.actions
        self.args = args
        self.aliases = tuple(aliases)
        self.values = values or {}  # handed to the action beside what was typed


class Group:
    def __init__(
        self,
        name: str,
        help: str,
        *members: "Command | Group",
        aliases: "Sequence[str]" = (),
        default: str = "",
        args: "Sequence[Arg]" = (),
    ) -> None:
        self.name = name
        self.help = help
        self.members = members
        self.aliases = tuple(aliases)
        self.default = default  # the command meant when none is named
        self.args = tuple(args)

    def member(self, word: str) -> "Command | Group | None":
        return next((m for m in self.members if word == m.name or word in m.aliases), None)


JSON = Arg("--json", action="store_const", const="json", dest="format", help="print JSON")
CSV = Arg("--csv", action="store_const", const="csv", dest="format", help="print CSV")
YAML = Arg("--yaml", action="store_const", const="yaml", dest="format", help="print YAML")
TABLE = Arg("--table", action="store_const", const="table", dest="format", help="print a table")
FORMAT = Arg(
    "-o",
    "--output",
    choices=["table", "json", "yaml", "csv"],
    dest="format",
    help="print in this format",
)
OUTPUT = OneOf(JSON, CSV, YAML, TABLE, FORMAT)
WATCHING = (
    Arg("--once", action="store_true", help="print the picture once, and end"),
    Arg(
        "--json",
        action="store_const",
        const="json",
        dest="format",
        help="print JSON: an object in a line at each change, or one object with --once",
    ),
)
YES = Arg("-y", "--yes", action="store_true", help="do not ask for confirmation")


def paging(limit: int) -> "tuple[Arg, ...]":
    return (
        Arg("--limit", type=int, default=limit, help="rows to fetch at a time"),
        Arg("--offset", type=int, default=0, help="rows to leave out at the start"),
        Arg("--pages", choices=["1", "all"], default="all", help="one page, or all of them"),
    )


def searching(other: str) -> "tuple[Arg, ...]":
    """Declare options of tables that are filtered and sorted by any column, such as the one named."""
    return (
        Arg(
            "--filter",
            action="append",
            default=[],
            metavar="CONDITION",
            help=f"only rows of which this holds, like 'state=COMPLETED' or '{other}<0.1'; others are"
            " !=, <=, >, >=, ~ (contains) and !~ (may be repeated: all must hold)",
        ),
        Arg(
            "--sort",
            action="append",
            default=[],
            metavar="COLUMN[=desc]",
            help=f"sort by this column, like {other} or id=desc (may be repeated)",
        ),
        Arg(
            "--column",
            action="append",
            default=[],
            metavar="COLUMN",
            help="show this column, too (may be repeated)",
        ),
    )
