"""Classes that declare commands and arguments. This module imports little because every command loads it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def count(text: str) -> int:
    """Parse a number that is 0 or more."""
    from argparse import ArgumentTypeError

    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"must be a number, 0 or more, not {text!r}")
    return int(text)


def positive(text: str) -> int:
    """Parse a number that is 1 or more."""
    from argparse import ArgumentTypeError

    if not (text.isascii() and text.isdigit() and int(text)):
        raise ArgumentTypeError(f"must be a number, 1 or more, not {text!r}")
    return int(text)


def web_address(text: str) -> str:
    """Parse an HTTP or HTTPS URL."""
    from argparse import ArgumentTypeError
    from urllib.parse import urlsplit

    if urlsplit(text).scheme not in ("http", "https") or not urlsplit(text).netloc:
        raise ArgumentTypeError(f"must be an address like https://HOST:PORT, not {text!r}")
    return text.rstrip("/")


def number_or_old(text: str) -> "int | str":
    """Parse an id: a number, or old:NUMBER for the number in an imported cluster."""
    from argparse import ArgumentTypeError

    if text.startswith("old:") and "," not in text:
        return text
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"must be a number, not {text!r}") from None


class Arg:
    """The parameters of `argparse.add_argument`. The argument is created only when its command runs."""

    def __init__(self, *names: str, **options: "Any") -> None:
        self.names = names
        self.options = options


class IdArg(Arg):
    """Ids of experiments or trials. The action gets numbers instead of words such as old:17."""

    def __init__(self, *names: str, kind: str, **options: "Any") -> None:
        super().__init__(*names, **options)
        self.kind = kind


class TextArg(Arg):
    """An argument that may be empty: free text, or words that are passed to another program."""


class ReplacedArg(Arg):
    """An option of Determined's command that this cluster does not need. The command prints a replacement.

    A `refused` option ends the command, because ignoring it would create a different cluster than the user
    requested. Values in `harmless` are accepted even then. `--help` omits these options; the reference page
    lists them.
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
    """Return a replaced option that takes no value."""
    return ReplacedArg(
        *names, instead=instead, refused=refused, action="store_const", const="", default=None
    )


class OneOf:
    """A group of mutually exclusive arguments."""

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
        self.values = values or {}  # passed to the action in addition to the arguments


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
        self.default = default  # the command to run if the user names none
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
    Arg("--once", action="store_true", help="print the screen once and exit"),
    Arg(
        "--json",
        action="store_const",
        const="json",
        dest="format",
        help="print one JSON object per line at each change, or one object with --once",
    ),
)
DOWNLOAD_QUIET = Arg("-q", "--quiet", action="store_true", help="print only the destination path")
BEST_CHECKPOINT = (
    Arg("--sort-by", metavar="METRIC", help="select checkpoints by this validation metric"),
    Arg(
        "--smaller-is-better",
        type=str,
        choices=["true", "false"],
        help="whether smaller values of the metric are better",
    ),
)
YES = Arg("-y", "--yes", action="store_true", help="do not ask for confirmation")


LIMIT = Arg("--limit", type=count, metavar="N", help="print at most N rows")
OFFSET = Arg("--offset", type=count, default=0, metavar="N", help="skip the first N rows")
PAGING = (
    LIMIT,
    OFFSET,
    Arg(
        "--pages",
        choices=["1", "all"],
        default="all",
        help="1: print at most 200 rows, or N with --limit N",
    ),
)


def searching(other: str) -> "tuple[Arg, ...]":
    """Declare the options of a table that filters and sorts by any column. `other` is an example column."""
    return (
        Arg(
            "--filter",
            action="append",
            default=[],
            metavar="CONDITION",
            help=f"show only rows that match, such as 'state=COMPLETED' or '{other}<0.1'; other operators:"
            " !=, <=, >, >=, ~ (contains) and !~ (may be repeated: all conditions must match)",
        ),
        Arg(
            "--sort",
            action="append",
            default=[],
            metavar="COLUMN[=desc]",
            help=f"sort by this column, such as {other} or id=desc (may be repeated)",
        ),
        Arg(
            "--column",
            action="append",
            default=[],
            metavar="COLUMN",
            help="also show this column (may be repeated)",
        ),
    )


_LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def log_options(*, of_task: bool = False) -> "tuple[Arg | OneOf, ...]":
    levels = list(_LOG_LEVELS) if of_task else ["UNSPECIFIED", *_LOG_LEVELS]
    allocation = (_many("--allocation-id", "allocation_ids", "only lines of this allocation"),)
    return (
        Arg("-f", "--follow", action="store_true", help="print new lines until the task ends"),
        Arg("--json", action="store_true", help="print one JSON object per line"),
        OneOf(
            Arg("--head", type=count, metavar="N", help="print the first N lines"),
            Arg(
                "--tail",
                type=count,
                metavar="N",
                help="print the last N lines (with -f, 0: only new lines)",
            ),
        ),
        *(allocation if of_task else ()),
        _many("--agent-id", "agent_ids", "only lines of this agent"),
        _many("--container-id", "container_ids", "only lines of this container"),
        _many("--rank-id", "rank_ids", "only lines of this rank", int),
        Arg("--timestamp-before", metavar="TIME", help="only lines before this RFC 3339 time"),
        Arg("--timestamp-after", metavar="TIME", help="only lines after this RFC 3339 time"),
        Arg("--level", choices=levels, help="only lines of this level and above"),
        _many("--source", "sources", "only lines of this source, such as task, agent or master"),
        _many("--stdtype", "stdtypes", "only lines of this stream, such as stdout or stderr"),
        Arg("--search", metavar="TEXT", help="only lines that contain this text, ignoring case"),
        Arg("--regex", action="store_true", help="treat --search as a regular expression (RE2)"),
    )


def _many(flag: str, dest: str, help: str, type: type = str) -> Arg:
    return Arg(
        flag, dest=dest, action="append", type=type, metavar="X", help=f"{help} (may be repeated)"
    )
