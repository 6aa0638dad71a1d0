"""Commands, notebooks, shells and TensorBoards: lists, details, ends."""

import argparse
import re
from typing import Any

from determined.common.http import APIError, Session

from det_cli.actions.experiment_settings import workspace_of
from det_cli.connection import V1, connect, pages
from det_cli.errors import FAILED, OK, UsageError
from det_cli.render import Column, print_object, say, show, state_text
from det_cli.times import local

# Named as in Determined's lists, and as `--sort-by` names them: scripts read the header of `--csv`.
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
    ("startTime", lambda t: local(t["startTime"])),
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


def whole_id(session: Session, kind: str, given: str) -> str:
    """Return the id of the only task of a kind that begins like this; what begins none is left to the cluster."""
    return _whole_id(session, kind, given, [(f"/{kind}s", f"{kind}s")])


def whole_task_id(session: Session, given: str) -> str:
    """Return the id of the only task that is no trial's and begins like this."""
    kinds = [(f"/{kind}s", f"{kind}s") for kind in KINDS]
    return _whole_id(session, "task", given, [*kinds, ("/generic-tasks", "tasks")])


def _whole_id(session: Session, name: str, given: str, lists: list[tuple[str, str]]) -> str:
    if _WHOLE_ID.fullmatch(given) or "." in given:  # those of trials and allocations have a dot
        return given
    known = [str(task["id"]) for path, key in lists for task in pages(session, path, key, {})]
    found = [id for id in known if id.startswith(given)]
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} {name}s have ids that begin with '{given}'",
            f"such as {', '.join(found[:3])}",
        )
    return found[0] if found else given


def path_of(kind: str, task_id: str = "") -> str:
    return f"{V1}/{kind}s/{task_id}" if task_id else f"{V1}/{kind}s"


def list_(args: argparse.Namespace) -> None:
    session = connect(args)
    filters: dict[str, Any] = {}
    if not args.all:
        own = session.username or session.get(V1 + "/me")["user"]["username"]
        filters["users"] = [own]
    if args.workspace_name:
        filters["workspaceId"] = workspace_of(session, args.workspace_name)["id"]
    found = _shown(session, list(pages(session, f"/{args.kind}s", f"{args.kind}s", filters)))
    found.sort(key=lambda t: str(t.get(args.sort_by) or ""), reverse=args.order_by == "desc")
    if args.quiet:
        for task in found:
            print(task["id"])
        return
    show(args, _columns(args.kind), found)


def describe(args: argparse.Namespace) -> None:
    session = connect(args)
    task = session.get(path_of(args.kind, whole_id(session, args.kind, args.task_id)))[args.kind]
    (shown,) = _shown(session, [task])
    show(args, _columns(args.kind), [shown], {**task, **shown})


def config(args: argparse.Namespace) -> None:
    session = connect(args)
    task_id = whole_id(session, args.kind, args.task_id)
    print_object(args, session.get(path_of(args.kind, task_id))["config"])


def kill(args: argparse.Namespace) -> int:
    session, code = connect(args), OK
    # An id that begins several ends the command before anything is killed.
    for task_id in [whole_id(session, args.kind, given) for given in args.task_ids]:
        try:
            done = _kill(session, args.kind, task_id)
        except APIError as e:
            if not args.force:
                raise
            say(f"{args.kind} {task_id} was not killed: {e.message}")
            code = FAILED
        else:
            print(done)
    return code


def _kill(session: Session, kind: str, task_id: str) -> str:
    path = path_of(kind, task_id)
    task = session.get(path)[kind]
    if task["state"] == "STATE_TERMINATED":
        return f"{kind.capitalize()} {task_id} had ended before: {task['exitStatus']}"
    session.post(f"{path}/kill")
    return f"Killed {kind} {task_id}"


def set_priority(args: argparse.Namespace) -> None:
    session = connect(args)
    task_id = whole_id(session, args.kind, args.task_id)
    session.post(f"{path_of(args.kind, task_id)}/set_priority", {"priority": args.priority})
    print(f"Set priority of {args.kind} {task_id} to {args.priority}")


def _columns(kind: str) -> tuple[Column, ...]:
    return _COLUMNS + _OWN.get(kind, ()) + _LAST


def _shown(session: Session, tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return tasks as Determined's client prints them, also in JSON: with the names of their workspaces, states without
    a prefix, and without the keys that open them."""
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
