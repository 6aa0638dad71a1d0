"""The options of every `logs` command."""

from det_cli.declare import Arg, OneOf

LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def log_options(*, of_task: bool = False) -> "tuple[Arg | OneOf, ...]":
    levels = list(LEVELS) if of_task else ["UNSPECIFIED", *LEVELS]
    allocation = (_many("--allocation-id", "allocation_ids", "only lines of this allocation"),)
    return (
        Arg("-f", "--follow", action="store_true", help="go on printing until the task ends"),
        Arg("--json", action="store_true", help="print one JSON object a line"),
        OneOf(
            Arg("--head", type=int, metavar="N", help="print the first N lines"),
            Arg("--tail", type=int, metavar="N", help="print the last N lines"),
        ),
        *(allocation if of_task else ()),
        _many("--agent-id", "agent_ids", "only lines of this agent"),
        _many("--container-id", "container_ids", "only lines of this container"),
        _many("--rank-id", "rank_ids", "only lines of this rank", int),
        Arg("--timestamp-before", metavar="TIME", help="only lines before this RFC 3339 time"),
        Arg("--timestamp-after", metavar="TIME", help="only lines after this RFC 3339 time"),
        Arg("--level", choices=levels, help="only lines of this level and above"),
        _many("--source", "sources", "only lines of this source: task, agent or master"),
        _many("--stdtype", "stdtypes", "only lines of this stream: stdout or stderr"),
    )


def _many(flag: str, dest: str, help: str, type: type = str) -> Arg:
    return Arg(
        flag, dest=dest, action="append", type=type, metavar="X", help=f"{help} (may be repeated)"
    )
