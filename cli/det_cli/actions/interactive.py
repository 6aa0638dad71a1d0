"""Commands, notebooks, shells and TensorBoards: lists, details, ends."""

import argparse
from typing import Any

from determined.common.http import APIError, Session

from det_cli.actions.experiment_settings import workspace_of
from det_cli.connection import V1, connect, pages
from det_cli.errors import FAILED, OK
from det_cli.render import Column, print_object, say, show
from det_cli.times import local

_COLUMNS: tuple[Column, ...] = (
    ("Id", lambda t: t["id"]),
    ("Owner", lambda t: t["username"]),
    ("Description", lambda t: t["description"]),
    ("State", lambda t: t["state"].removeprefix("STATE_")),
)
_LAST: tuple[Column, ...] = (
    ("Exit Status", lambda t: t["exitStatus"]),
    ("Resource Pool", lambda t: t["resourcePool"]),
    ("Workspace", lambda t: t.get("workspaceName")),
    ("Started", lambda t: local(t["startTime"])),
)
_OWN: dict[str, tuple[Column, ...]] = {
    "tensorboard": (
        ("Experiment Ids", lambda t: ", ".join(map(str, t["experimentIds"]))),
        ("Trial Ids", lambda t: ", ".join(map(str, t["trialIds"]))),
    ),
}
_SECRETS = ("privateKey",)


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
    found = _with_workspaces(
        session, list(pages(session, f"/{args.kind}s", f"{args.kind}s", filters))
    )
    found.sort(key=lambda t: str(t.get(args.sort_by) or ""), reverse=args.order_by == "desc")
    if args.quiet:
        for task in found:
            print(task["id"])
        return
    show(args, _columns(args.kind), found)


def describe(args: argparse.Namespace) -> None:
    session = connect(args)
    task = session.get(path_of(args.kind, args.task_id))[args.kind]
    show(args, _columns(args.kind), _with_workspaces(session, [task]), task)


def config(args: argparse.Namespace) -> None:
    found = connect(args).get(path_of(args.kind, args.task_id))["config"]
    print_object(args, found)


def kill(args: argparse.Namespace) -> int:
    session, code = connect(args), OK
    for task_id in args.task_ids:
        try:
            session.post(f"{path_of(args.kind, task_id)}/kill")
        except APIError as e:
            if not args.force:
                raise
            say(f"{args.kind} {task_id} was not killed: {e.message}")
            code = FAILED
        else:
            print(f"Killed {args.kind} {task_id}")
    return code


def set_priority(args: argparse.Namespace) -> None:
    body = {"priority": args.priority}
    connect(args).post(f"{path_of(args.kind, args.task_id)}/set_priority", body)
    print(f"Set priority of {args.kind} {args.task_id} to {args.priority}")


def _columns(kind: str) -> tuple[Column, ...]:
    return _COLUMNS + _OWN.get(kind, ()) + _LAST


def _with_workspaces(session: Session, tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the names of their workspaces to tasks, and leave out tokens and addresses that open them."""
    if not tasks:
        return []
    names = {w["id"]: w["name"] for w in pages(session, "/workspaces", "workspaces")}
    return [
        {
            **{key: value for key, value in task.items() if key not in _SECRETS},
            "workspaceName": names.get(task["workspaceId"], str(task["workspaceId"])),
        }
        for task in tasks
    ]
