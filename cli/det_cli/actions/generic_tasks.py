"""`det task`: create, fork, pause, resume and kill generic tasks. Child tasks follow their parent."""

import argparse
import json
from typing import Any

from determined.common import context_upload
from determined.common.context import collect
from determined.common.http import Session

from det_cli import config_file
from det_cli.actions.interactive import whole_task_id
from det_cli.actions.interactive_start import follow, watching
from det_cli.connection import V1, connect
from det_cli.errors import OK, UsageError
from det_cli.render import print_object, say


def create(args: argparse.Namespace) -> int:
    text = config_file.read(args.config_file, args.config)
    if args.inherit_context and not args.parent:
        raise UsageError("--inherit_context needs a parent task", "add --parent TASK_ID")
    session = connect(args)
    body: dict[str, Any] = {
        "config": text,
        "inheritContext": args.inherit_context,
        "noPause": args.no_pause,
    }
    tasks = {"parentId": args.parent, "forkedFrom": args.fork}
    ids = {name: whole_task_id(session, id) for name, id in tasks.items() if id is not None}
    body.update(ids)
    if args.project_id is not None:
        body["projectId"] = args.project_id
    context = collect(args.context, args.include)
    if context.entries:
        upload = context_upload.send(session, context, watching)
        inline = upload.get("modelDefinition")
        body.update(upload if inline is None else {"contextDirectory": inline})
    return _submit(session, args, body)


def fork(args: argparse.Namespace) -> int:
    session = connect(args)
    original = whole_task_id(session, args.parent_task_id)
    body: dict[str, Any] = {"config": "", "forkedFrom": original}
    if args.project_id is not None:
        body["projectId"] = args.project_id
    return _submit(session, args, body)


def _submit(session: Session, args: argparse.Namespace, body: dict[str, Any]) -> int:
    body.setdefault("contextDirectory", [])
    response = session.post(V1 + "/generic-tasks", body)
    print(f"Created task {response['taskId']}", flush=True)
    for warning in response.get("configWarnings") or []:
        say(f"warning: {warning}")
    return follow(session, str(response["taskId"]), "task") if args.follow else OK


def config(args: argparse.Namespace) -> None:
    session, task_id = _connect(args)
    config_json = session.get(f"{V1}/tasks/{task_id}/config")["config"]
    print_object(args, json.loads(config_json))


def kill(args: argparse.Namespace) -> None:
    session, task_id = _connect(args)
    body = {"taskId": task_id, "killFromRoot": args.root}
    session.post(f"{V1}/tasks/{task_id}/kill", body)
    print(f"Sent kill to task {task_id}" + (" and its whole tree" if args.root else ""))


def pause(args: argparse.Namespace) -> None:
    session, task_id = _connect(args)
    session.post(f"{V1}/tasks/{task_id}/pause")
    print(f"Paused task {task_id}")


def unpause(args: argparse.Namespace) -> None:
    session, task_id = _connect(args)
    session.post(f"{V1}/tasks/{task_id}/unpause")
    print(f"Unpaused task {task_id}")


def _connect(args: argparse.Namespace) -> tuple[Session, str]:
    session = connect(args)
    return session, whole_task_id(session, args.task_id)
