"""Printing logs of experiments, trials and tasks."""

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

# The id of a task and the number of one of its runs, as `det task list` prints it.
_ALLOCATION = re.compile(r"(.*[0-9a-f]{12}(?:-\d+)?)\.\d+")


def of_experiment(args: argparse.Namespace) -> None:
    session = connect(args)
    path = f"{V1}/experiments/{args.experiment_id}/trials"
    trials = session.get(path, {"limit": 1, "sortBy": "SORT_BY_ID"})["trials"]
    if not trials:
        raise MissingError(
            f"experiment {args.experiment_id} has no trial yet",
            f"`det why experiment {args.experiment_id}` tells what it waits for",
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
    given = args.task_id
    named = whole_id(session, args.kind, given) if args.kind else whole_task_id(session, given)
    task_id = named
    of_allocation = _ALLOCATION.fullmatch(task_id)
    if of_allocation:
        task_id = of_allocation[1]
        args.allocation_ids = [*(args.allocation_ids or ()), named]

    def ended() -> bool:
        return bool(session.get(f"{V1}/tasks/{task_id}")["task"].get("endTime"))

    print_lines(session, f"/tasks/{task_id}", args, ended)
    again = f"det task logs -f {named}"
    say(f"Task log stream ended. To reopen log stream, run: {again}")


def print_lines(
    session: Session, path: str, args: argparse.Namespace, ended: Callable[[], bool]
) -> None:
    show = print_json if args.json else print_line
    nothing = True
    for line in _lines(session, path, args, ended):
        show(line)
        sys.stdout.flush()
        nothing = False
    if nothing:
        _tell_unknown(session, path, args)


def _lines(
    session: Session, path: str, args: argparse.Namespace, ended: Callable[[], bool]
) -> Iterator[dict[str, Any]]:
    filters = _filters(args)
    seen: list[dict[str, Any]] = []
    if args.tail is not None and args.follow:
        earlier, seen = log_stream.tail_to_follow(session, path, filters, args.tail)
        yield from earlier
    elif args.tail is not None:
        yield from log_stream.tail(session, path, filters, args.tail)
    elif args.head is not None:
        yield from log_stream.head(session, path, filters, args.head)
    if args.follow and args.head is None:
        yield from log_stream.follow(session, path, filters, ended, seen)
    elif args.tail is None and args.head is None:
        yield from log_stream.fetch(session, path, filters)


def _tell_unknown(session: Session, path: str, args: argparse.Namespace) -> None:
    """Tell which sources and streams a log has where none of its lines has those that were asked for."""
    asked = {"--source": ("sources", args.sources), "--stdtype": ("stdtypes", args.stdtypes)}
    if not (args.sources or args.stdtypes):
        return
    there: dict[str, Any] = next(session.stream_lines("GET", f"{V1}{path}/logs/fields"), {})
    for flag, (field, wanted) in asked.items():
        known = sorted(there.get(field) or ())
        for value in sorted(set(wanted or ()) - set(known)):
            say(f"no line of this log has {flag} {value}; there are: {', '.join(known) or 'none'}")


def print_line(line: dict[str, Any]) -> None:
    message = line["message"]
    print(message, end="" if message.endswith("\n") else "\n")


def print_json(line: dict[str, Any]) -> None:
    print(json.dumps(line, sort_keys=True))


def _filters(args: argparse.Namespace) -> log_stream.Filters:
    """Return the filters for the server; absent options are left out."""
    if args.regex and args.search is None:
        raise UsageError("--regex says how to read --search TEXT: give that, too")
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
