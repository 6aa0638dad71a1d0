"""`det why`: explain why an experiment or task waits or failed."""

import argparse
from collections.abc import Iterator
from typing import Any

from determined.common.http import NotFoundError

from det_cli.actions.interactive import whole_task_id
from det_cli.connection import V1, connect
from det_cli.errors import UsageError
from det_cli.render import local_time, plain, print_json, print_rows, print_yaml

_KINDS = {
    "experiment": "experiment",
    "e": "experiment",
    "trial": "trial",
    "t": "trial",
    "job": "job",
    "j": "job",
    "task": "task",
}
_HEADER = ("Trial ID", "Allocation ID", "State", "Since", "Code", "Reason")


def why(args: argparse.Namespace) -> None:
    session = connect(args)
    kind, id = _subject(args.subject)
    if kind == "job" and id.isdigit():
        kind = "experiment"  # users know the job of an experiment by the experiment's number
    if kind == "task":
        id = whole_task_id(session, id)
    try:
        reasons = session.get(f"{V1}/why/{kind}/{id}")["reasons"]
    except NotFoundError:
        # Ids of commands, notebooks and shells have the same form as job ids.
        if kind != "job" or len(args.subject) > 1:
            raise
        kind, id = "task", whole_task_id(session, id)
        reasons = session.get(f"{V1}/why/{kind}/{id}")["reasons"]
    if args.format in ("json", "yaml"):
        (print_json if args.format == "json" else print_yaml)(reasons)
    elif args.format:
        rows = [
            [
                r.get("trialId"),
                r.get("allocationId"),
                r["state"],
                r.get("since"),
                r["code"],
                r["sentence"],
            ]
            for r in reasons
        ]
        print_rows(_HEADER, rows, as_csv=args.format == "csv")
    elif not reasons:
        print(f"{kind} {id} is not waiting.")
    else:
        _print_reasons(reasons)


def _subject(words: list[str]) -> tuple[str, str]:
    """Return the kind and id: `3` is an experiment, `trial 7` a trial, and any other word a job or task."""
    kind = _KINDS.get(words[0].rstrip("s") or words[0])
    usage = "write `det why [experiment|trial|job|task] ID`"
    if len(words) == 1:
        word = words[0]
        if kind is not None:
            raise UsageError(f"the id of the {kind} is missing", usage)
        if word.isdigit():
            return "experiment", word
        return ("task" if "." in word else "job"), word
    if len(words) > 2 or kind is None:
        raise UsageError(f"'{' '.join(words)}' is not an experiment, trial, job or task", usage)
    return kind, words[1]


def _print_reasons(reasons: "list[dict[str, Any]]") -> None:
    """Print each sentence once, together with all its trials. A failure has its cause first, then the details."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for reason in reasons:
        groups.setdefault((reason["state"], reason["sentence"]), []).append(reason)
    for (state, sentence), same in groups.items():
        trials = sorted({int(r["trialId"]) for r in same if r.get("trialId")})
        subject = _names(trials)
        since = min((r["since"] for r in same if r.get("since")), default="")
        when = f" since {local_time(since)}" if since else ""
        cause = same[0].get("cause") or sentence
        print(plain(f"{subject}{state.removeprefix('STATE_')}{when}"))
        print(f"  {plain(cause)}")
        for line in _after(same[0]):
            print(f"  {plain(line)}")


def _after(reason: "dict[str, Any]") -> Iterator[str]:
    """Yield the details of a failure and the next step."""
    if reason.get("details"):
        yield f"details: {reason['details']}"
    if reason.get("nextStep"):
        yield f"next: {reason['nextStep']}"
    if reason.get("failedTrialId"):
        yield f"logs: `det trial logs {reason['failedTrialId']}`"


def _names(trials: list[int]) -> str:
    if not trials:
        return ""
    if len(trials) == 1:
        return f"trial {trials[0]}: "
    ids = ", ".join(map(str, trials[:8]))
    more = f" and {len(trials) - 8} more" if len(trials) > 8 else ""
    return f"trials {ids}{more}: "
