"""List, describe and kill commands, notebooks, shells and TensorBoards."""

import argparse
import re
from typing import Any

from determined.common.http import APIError, Session

from det_cli.actions.experiment_settings import workspace_of
from det_cli.connection import V1, connect, pages
from det_cli.errors import FAILED, OK, UsageError
from det_cli.render import Column, local_time, print_object, say, show, state_text

# Determined and `--sort-by` use the same names. Scripts read them from the header of `--csv`.
_COLUMNS: tuple[Column, ...] = (
    ("id", lambda t: t["id"]),
    ("username", lambda t: t["username"]),
    ("description", lambda t: t["description"]),
    ("state", lambda t: t["state"]),
)
_LAST: tuple[Column, ...] = (
    ("exitStatus", lambda t: t["exitStatus"]),
    ("resourcePool", lambda t: t["resourcePool"]),
    ("workspaceName", lambda t: t.get("workspaceName")),
    ("startTime", lambda t: local_time(t["startTime"])),
)
_OWN: dict[str, tuple[Column, ...]] = {
    "tensorboard": (
        ("experimentIds", lambda t: ", ".join(map(str, t["experimentIds"]))),
        ("trialIds", lambda t: ", ".join(map(str, t["trialIds"]))),
    ),
}
KINDS = ("command", "notebook", "shell", "tensorboard")
_SECRETS = ("privateKey",)


_WHOLE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def whole_id(session: Session, kind: str, prefix: str) -> str:
    """Return the full id of the task with this prefix. Return the prefix itself if no task matches."""
    return _whole_id(session, kind, prefix, [(f"/{kind}s", f"{kind}s")])


def whole_task_id(session: Session, prefix: str) -> str:
    """Return the full id of the task of any kind, except trials, with this prefix."""
    kinds = [(f"/{kind}s", f"{kind}s") for kind in KINDS]
    return _whole_id(session, "task", prefix, [*kinds, ("/generic-tasks", "tasks")])


def _whole_id(session: Session, name: str, prefix: str, lists: list[tuple[str, str]]) -> str:
    if _WHOLE_ID.fullmatch(prefix) or "." in prefix:  # ids of trials and allocations contain a dot
        return prefix
    all_ids = [str(task["id"]) for path, key in lists for task in pages(session, path, key, {})]
    ids = [id for id in all_ids if id.startswith(prefix)]
    if len(ids) > 1:
        raise UsageError(
            f"{len(ids)} {name}s have ids that begin with '{prefix}'",
            f"such as {', '.join(ids[:3])}",
        )
    return ids[0] if ids else prefix


def path_of(kind: str, task_id: str = "") -> str:
    return f"{V1}/{kind}s/{task_id}" if task_id else f"{V1}/{kind}s"


def list_(args: argparse.Namespace) -> None:
    session = connect(args)
    filters: dict[str, Any] = {}
    if not args.all:
        username = session.username or session.get(V1 + "/me")["user"]["username"]
        filters["users"] = [username]
    if args.workspace_name:
        filters["workspaceId"] = workspace_of(session, args.workspace_name)["id"]
    tasks = _printable(session, list(pages(session, f"/{args.kind}s", f"{args.kind}s", filters)))
    tasks.sort(key=lambda t: str(t.get(args.sort_by) or ""), reverse=args.order_by == "desc")
    if args.quiet:
        for task in tasks:
            print(task["id"])
        return
    show(args, _columns(args.kind), tasks, empty=lambda: _no_tasks(session, args))


def _no_tasks(session: Session, args: argparse.Namespace) -> str:
    """Explain an empty list. Tasks that ended more than a day ago are not listed."""
    all_tasks = [] if args.all else list(pages(session, f"/{args.kind}s", f"{args.kind}s", {}))
    if all_tasks:
        return f"none of yours; {len(all_tasks)} of others: --all"
    return f"no {args.kind} that you may see runs, or ended within a day"


def describe(args: argparse.Namespace) -> None:
    session = connect(args)
    task = session.get(path_of(args.kind, whole_id(session, args.kind, args.task_id)))[args.kind]
    (printable,) = _printable(session, [task])
    show(args, _columns(args.kind), [printable], {**task, **printable})


def config(args: argparse.Namespace) -> None:
    session = connect(args)
    task_id = whole_id(session, args.kind, args.task_id)
    print_object(args, session.get(path_of(args.kind, task_id))["config"])


def kill(args: argparse.Namespace) -> int:
    session, code = connect(args), OK
    # Resolve all ids first, so that an ambiguous prefix fails before any task is killed.
    for task_id in [whole_id(session, args.kind, prefix) for prefix in args.task_ids]:
        try:
            message = _kill(session, args.kind, task_id)
        except APIError as e:
            if not args.force:
                raise
            say(f"{args.kind} {task_id} was not killed: {e.message}")
            code = FAILED
        else:
            print(message)
    return code


def _kill(session: Session, kind: str, task_id: str) -> str:
    path = path_of(kind, task_id)
    task = session.get(path)[kind]
    if task["state"] == "STATE_TERMINATED":
        return f"{kind.capitalize()} {task_id} has already ended: {task['exitStatus']}"
    session.post(f"{path}/kill")
    return f"Killed {kind} {task_id}"


def set_priority(args: argparse.Namespace) -> None:
    session = connect(args)
    task_id = whole_id(session, args.kind, args.task_id)
    session.post(f"{path_of(args.kind, task_id)}/set_priority", {"priority": args.priority})
    print(f"Set priority of {args.kind} {task_id} to {args.priority}")


def _columns(kind: str) -> tuple[Column, ...]:
    return _COLUMNS + _OWN.get(kind, ()) + _LAST


def _printable(session: Session, tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return tasks as Determined's client prints them.

    Workspaces are names, states have no prefix, and private keys are removed."""
    if not tasks:
        return []
    names = {w["id"]: w["name"] for w in pages(session, "/workspaces", "workspaces")}
    return [
        {
            **{key: value for key, value in task.items() if key not in _SECRETS},
            "state": state_text(task["state"]),
            "workspaceName": names.get(task["workspaceId"], str(task["workspaceId"])),
        }
        for task in tasks
    ]
