"""Open notebooks and TensorBoards in a browser, and shells with SSH."""

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from determined.common.http import Session
from determined.common.token_store import default_path

from det_cli.actions.interactive import path_of, whole_id
from det_cli.actions.wait_report import WaitReport
from det_cli.connection import V1, connect
from det_cli.errors import CommandError
from det_cli.render import say

_POLL_S = 0.5


def open_(args: argparse.Namespace) -> None:
    session = connect(args)
    task_id = whole_id(session, args.kind, args.task_id)
    task = session.get(path_of(args.kind, task_id))[args.kind]
    wait(session, args.kind, task_id)
    show(session, args, task)


def open_shell(args: argparse.Namespace) -> int:
    session = connect(args)
    task_id = whole_id(session, "shell", args.task_id)
    session.get(path_of("shell", task_id))
    return connect_ssh(session, args, task_id)


def show_ssh(args: argparse.Namespace) -> None:
    """Print the ssh command. Its user is certain only after the shell is ready."""
    session = connect(args)
    task_id = whole_id(session, "shell", args.task_id)
    task = session.get(path_of("shell", task_id))["shell"]
    status = session.get(f"{V1}/tasks/{task_id}")["task"]
    _check_running(session, "shell", status)
    if not is_ready(status):
        say(
            "The shell is not ready yet. Run this command again later, because the user may change."
        )
    print(shlex.join(ssh_command(session, task, args.ssh_opts)))


def is_ready(task: dict[str, Any]) -> bool:
    return bool((task["allocations"] or [{}])[0].get("isReady"))


def wait(session: Session, kind: str, task_id: str) -> None:
    """Wait until a task is ready. Print its state, and the reason of a wait of more than five seconds."""
    last_state, waits = "", WaitReport(session, "task", task_id)
    while True:
        task = session.get(f"{V1}/tasks/{task_id}")["task"]
        _check_running(session, kind, task)
        if is_ready(task):
            return
        allocation = (task["allocations"] or [{}])[0]
        state = str(allocation.get("state", "STATE_QUEUED")).removeprefix("STATE_")
        if state != last_state:
            last_state = state
            # A task that first installs its program runs for a while before it is ready.
            log = f"; `det {kind} logs {task_id}` shows its progress" if state == "RUNNING" else ""
            say(f"The {kind} is {state}{log} …")
        waits.check()
        time.sleep(_POLL_S)


def _check_running(session: Session, kind: str, task: dict[str, Any]) -> None:
    """Raise CommandError if the task has ended. The message of a failed task is the cause, as in its log."""
    if not task.get("endTime"):
        return
    task_id = task["taskId"]
    response = session.get(path_of(kind, task_id))
    entrypoint = response["config"].get("entrypoint")
    suffix = (
        f"; its configuration sets the entrypoint: {shlex.join(entrypoint)}" if entrypoint else ""
    )
    reasons = session.get(f"{V1}/why/task/{task_id}")["reasons"]
    cause = next((r["cause"] for r in reasons if r.get("cause")), "")
    message = cause or f"{kind} {task_id} has ended: {response[kind]['exitStatus']}"
    raise CommandError(message + suffix, f"`det {kind} logs {task_id}` shows why")


def show(session: Session, args: argparse.Namespace, task: dict[str, Any]) -> None:
    """Print the address of a task and open it in a browser, unless --no-browser is given."""
    address = f"{session.base_url.rstrip('/')}{task['serviceAddress']}"
    print(address)
    if not args.no_browser:
        import webbrowser

        webbrowser.open(address)


def connect_ssh(session: Session, args: argparse.Namespace, task_id: str) -> int:
    """Wait until the shell is ready, then log in. The user name is unknown before."""
    wait(session, "shell", task_id)
    task = session.get(path_of("shell", task_id))["shell"]
    command = ssh_command(session, task, args.ssh_opts)
    if args.show_ssh_command:
        say(shlex.join(command))
    try:
        return subprocess.run(command, check=False).returncode
    except FileNotFoundError as e:
        raise CommandError(
            "there is no `ssh` on this machine", "install the OpenSSH client: openssh-client"
        ) from e


def ssh_command(session: Session, task: dict[str, Any], more: "list[str]") -> "list[str]":
    """Return the ssh command for a shell. Its private key is stored in a file of this user."""
    if not task.get("privateKey"):
        raise CommandError(
            f"shell {task['id']} belongs to another user", "only its owner may open it"
        )
    proxy = [sys.executable, "-m", "determined.cli.tunnel", session.base_url, "%h"]
    user = (task.get("agentUserGroup") or {}).get("user") or "root"
    options = [
        f"ProxyCommand={shlex.join(proxy)}",
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "LogLevel=ERROR",
        "IdentitiesOnly=yes",
        "ServerAliveInterval=30",
    ]
    option_words = [word for option in options for word in ("-o", option)]
    key = _key_file(str(task["id"]), str(task["privateKey"]))
    return ["ssh", *option_words, "-i", str(key), f"{user}@{task['id']}", *more]


def _key_file(task_id: str, private_key: str) -> Path:
    folder = Path(default_path()).parent / "shells"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / task_id
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as f:
        f.write(private_key)
    return path
