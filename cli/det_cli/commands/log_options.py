"""The options of every `logs` command."""

from det_cli.declare import Arg, OneOf, count

LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def log_options(*, of_task: bool = False) -> "tuple[Arg | OneOf, ...]":
    levels = list(LEVELS) if of_task else ["UNSPECIFIED", *LEVELS]
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
