"""Print the logs of experiments, trials and tasks."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from determined.common import log_stream
from determined.common.http import Session
from determined.common.log_stream import trial_ended

from det_cli.actions.interactive import whole_id, whole_task_id
from det_cli.connection import V1, connect
from det_cli.errors import MissingError, UsageError
from det_cli.render import say

# An allocation id, as printed by `det task list`: a task id and the number of the allocation.
_ALLOCATION = re.compile(r"(.*[0-9a-f]{12}(?:-\d+)?)\.\d+")


def of_experiment(args: argparse.Namespace) -> None:
    session = connect(args)
    path = f"{V1}/experiments/{args.experiment_id}/trials"
    trials = session.get(path, {"limit": 1, "sortBy": "SORT_BY_ID"})["trials"]
    if not trials:
        raise MissingError(
            f"experiment {args.experiment_id} has no trial yet",
            f"`det why experiment {args.experiment_id}` explains why it waits",
        )
    _print_trial(session, int(trials[0]["id"]), args)


def of_trial(args: argparse.Namespace) -> None:
    _print_trial(connect(args), args.trial_id, args)


def _print_trial(session: Session, trial_id: int, args: argparse.Namespace) -> None:
    print_lines(session, f"/trials/{trial_id}", args, trial_ended(session, trial_id))
    again = f"det trial logs -f {trial_id}"
    say(f"Trial log stream ended. To reopen log stream, run: {again}")


def of_task(args: argparse.Namespace) -> None:
    session = connect(args)
    prefix = args.task_id
    full_id = whole_id(session, args.kind, prefix) if args.kind else whole_task_id(session, prefix)
    task_id = full_id
    allocation = _ALLOCATION.fullmatch(task_id)
    if allocation:
        task_id = allocation[1]
        args.allocation_ids = [*(args.allocation_ids or ()), full_id]

    def ended() -> bool:
        return bool(session.get(f"{V1}/tasks/{task_id}")["task"].get("endTime"))

    print_lines(session, f"/tasks/{task_id}", args, ended)
    again = f"det task logs -f {full_id}"
    say(f"Task log stream ended. To reopen log stream, run: {again}")


def print_lines(
    session: Session, path: str, args: argparse.Namespace, ended: Callable[[], bool]
) -> None:
    show = print_json if args.json else print_line
    is_empty = True
    for line in _lines(session, path, args, ended):
        show(line)
        sys.stdout.flush()
        is_empty = False
    if is_empty:
        _report_unknown_filters(session, path, args)


def _lines(
    session: Session, path: str, args: argparse.Namespace, ended: Callable[[], bool]
) -> Iterator[dict[str, Any]]:
    filters = _filters(args)
    printed: list[dict[str, Any]] = []
    if args.tail is not None and args.follow:
        earlier, printed = log_stream.tail_to_follow(session, path, filters, args.tail)
        yield from earlier
    elif args.tail is not None:
        yield from log_stream.tail(session, path, filters, args.tail)
    elif args.head is not None:
        yield from log_stream.head(session, path, filters, args.head)
    if args.follow and args.head is None:
        yield from log_stream.follow(session, path, filters, ended, printed)
    elif args.tail is None and args.head is None:
        yield from log_stream.fetch(session, path, filters)


def _report_unknown_filters(session: Session, path: str, args: argparse.Namespace) -> None:
    """Print the sources and streams of a log if it has no line with the requested source or stream."""
    filters = {"--source": ("sources", args.sources), "--stdtype": ("stdtypes", args.stdtypes)}
    if not (args.sources or args.stdtypes):
        return
    fields: dict[str, Any] = next(session.stream_lines("GET", f"{V1}{path}/logs/fields"), {})
    for flag, (field, values) in filters.items():
        existing = sorted(fields.get(field) or ())
        for value in sorted(set(values or ()) - set(existing)):
            say(f"no line of this log has {flag} {value}; it has: {', '.join(existing) or 'none'}")


def print_line(line: dict[str, Any]) -> None:
    message = line["message"]
    print(message, end="" if message.endswith("\n") else "\n")


def print_json(line: dict[str, Any]) -> None:
    print(json.dumps(line, sort_keys=True))


def _filters(args: argparse.Namespace) -> log_stream.Filters:
    """Return the filters for the API request. Options that are not set are None."""
    if args.regex and args.search is None:
        raise UsageError("--regex needs --search TEXT", "add --search with a regular expression")
    return {
        "allocationIds": getattr(args, "allocation_ids", None),
        "agentIds": args.agent_ids,
        "containerIds": args.container_ids,
        "rankIds": args.rank_ids,
        "sources": args.sources,
        "stdtypes": args.stdtypes,
        "timestampBefore": args.timestamp_before,
        "timestampAfter": args.timestamp_after,
        "levels": log_stream.from_level(args.level),
        "searchText": args.search,
        "enableRegex": args.regex or None,
    }
