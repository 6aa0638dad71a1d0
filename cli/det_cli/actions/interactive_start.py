"""Start commands, notebooks, shells and TensorBoards."""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from determined.common import context_upload, log_stream
from determined.common.context import collect
from determined.common.http import Session

from det_cli import config_file
from det_cli.actions import interactive_open, wait_report
from det_cli.actions.experiment_settings import workspace_of
from det_cli.actions.interactive import path_of
from det_cli.actions.logs import print_line
from det_cli.connection import V1, connect
from det_cli.errors import FAILED, INTERRUPTED, OK, UsageError
from det_cli.render import Progress, print_yaml, say

# Final states of generic tasks. For other kinds, the last allocation records how they ended.
_STOPPED = ("GENERIC_TASK_STATE_CANCELED", "GENERIC_TASK_STATE_ERROR")


def run(args: argparse.Namespace) -> int:
    words = args.entrypoint[1:] if args.entrypoint[:1] == ["--"] else args.entrypoint
    config = read_config(args)
    if words:
        config["entrypoint"] = words
    if not config.get("entrypoint"):
        hint = "write it after the options: `det command run echo hello`"
        raise UsageError("there is no command to run", hint)
    session = connect(args)
    task = launch(session, args, "command", config)
    if args.detach:
        return OK
    return follow(session, str(task["id"]))


def notebook(args: argparse.Namespace) -> int:
    config, session = read_config(args), connect(args)
    if args.preview:
        body = body_of(session, args, config)
        print_yaml(session.post(path_of("notebook"), {**body, "preview": True})["config"])
        return OK
    return _open(session, args, launch(session, args, "notebook", config), "notebook")


def tensorboard(args: argparse.Namespace) -> int:
    if not args.experiment_ids and not args.trial_ids:
        hint = "`det tensorboard start 1 2`, or `det tensorboard start -t 7`"
        raise UsageError("name at least one experiment or trial", hint)
    config, session = read_config(args), connect(args)
    subjects = {"experimentIds": args.experiment_ids, "trialIds": args.trial_ids}
    task = launch(session, args, "tensorboard", config, **subjects)
    return _open(session, args, task, "tensorboard")


def shell(args: argparse.Namespace) -> int:
    config, session = read_config(args), connect(args)
    task = launch(session, args, "shell", config)
    if args.detach:
        return OK
    return interactive_open.connect_ssh(session, args, str(task["id"]))


def _open(session: Session, args: argparse.Namespace, task: dict[str, Any], kind: str) -> int:
    if args.detach:
        return OK
    interactive_open.wait(session, kind, str(task["id"]))
    interactive_open.show(session, args, task)
    return OK


def read_config(args: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration file with the changes from the command line."""
    if args.config_file:
        text = config_file.read(args.config_file, args.config, may_be_empty=True)
    else:
        text = config_file.apply_changes("", args.config)
    config = config_file.load(text, args.config_file or "the configuration")
    mounts = [_mount(volume) for volume in getattr(args, "volume", [])]
    if mounts:
        config["bind_mounts"] = [*(config.get("bind_mounts") or []), *mounts]
    return config


def _mount(volume: str) -> dict[str, str]:
    host, colon, container = volume.partition(":")
    if not (colon and host and container):
        raise UsageError(f"--volume {volume!r} is not HOST:CONTAINER", "write --volume /data:/data")
    return {"host_path": host, "container_path": container}


def launch(
    session: Session, args: argparse.Namespace, kind: str, config: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """Start a task and print its id."""
    body = {**body_of(session, args, config), **more}
    response = session.post(path_of(kind), body)
    task: dict[str, Any] = response[kind]
    print(task["id"] if args.detach else f"Launched {kind} {task['id']}", flush=True)
    for warning in response.get("configWarnings") or []:
        say(f"warning: {warning}")
    if "LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED" in (response.get("warnings") or []):
        say(
            "The task needs more slots than any agent of the pool has now. It waits until one has enough."
        )
    return task


def body_of(session: Session, args: argparse.Namespace, config: dict[str, Any]) -> dict[str, Any]:
    """Return the request body for a new task. A large context is uploaded first."""
    body: dict[str, Any] = {"config": config}
    if getattr(args, "template", None):
        body["templateName"] = args.template
    if args.workspace_name:
        body["workspaceId"] = workspace_of(session, args.workspace_name)["id"]
    context = collect(args.context, args.include)
    if context.entries:
        upload = context_upload.send(session, context, watching)
        body.update({"files": upload["modelDefinition"]} if "modelDefinition" in upload else upload)
    return body


@contextlib.contextmanager
def watching(size: int) -> Iterator[context_upload.Watch]:
    with Progress("Sending files", size) as progress:
        yield progress.add


def follow(session: Session, task_id: str, group: str = "command") -> int:
    """Print a task's log until it ends and return its exit status. Ctrl-C does not stop the task."""

    def ended() -> bool:
        return bool(session.get(f"{V1}/tasks/{task_id}")["task"].get("endTime"))

    try:
        with wait_report.reporting(session, "task", task_id):
            for line in log_stream.follow(session, f"/tasks/{task_id}", {}, ended):
                print_line(line)
                sys.stdout.flush()
    except KeyboardInterrupt:
        say(
            f"\nStopped following. The task continues: `det task logs -f {task_id}` follows it again,"
            f" `det {group} kill {task_id}` stops it."
        )
        return INTERRUPTED
    return status_of(session.get(f"{V1}/tasks/{task_id}")["task"])


def status_of(task: dict[str, Any]) -> int:
    """Return the exit status of an ended task. It is never 0 for a task that was stopped or failed."""
    allocation: dict[str, Any] = next(iter(task["allocations"]), {})
    code = allocation.get("statusCode")
    if code:
        return int(code)
    was_stopped = task.get("taskState") in _STOPPED or allocation.get("exitKind") not in (
        None,
        "clean",
    )
    return FAILED if code is None or was_stopped else OK
