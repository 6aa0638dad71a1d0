"""`python3 -m determined.exec.entry`: a container's command, for every kind of task.

One process ships the logs, prepares the files, sources the startup hooks, waits for the other containers and starts
the user's command. It exits with the command's status.
"""

import json
import os
import sys
from typing import Dict, List, Mapping, Optional, Sequence

from determined import _paths, _progress
from determined.common import otlp
from determined.common.exit_status import AGENT_AWAY, INVALID_CONTAINER
from determined.common.http import APIError, MasterUnreachableError, Session
from determined.exec import _credentials, _exit_reason, _prepare
from determined.exec._child import Child, SignalForwarder
from determined.exec._command import (
    NoEntrypoint,
    child_environment,
    task_command,
    write_det_program,
)
from determined.exec._gateway import AgentAway
from determined.exec._hooks import HookedShell, NoBash, find_hooks
from determined.exec._prepare import rendezvous
from determined.exec._probe import StorageProbe
from determined.exec._ship import LogShipper, start_shipping
from determined.exec._watch import HangWatch, hang_timeout_s

NOT_EXECUTABLE = 126
NOT_FOUND = 127
ERROR = "LOG_LEVEL_ERROR"


class Failed(Exception):
    """The task cannot start. The exception has the reason and the exit status."""

    def __init__(self, reason: str, code: int = 1) -> None:
        super().__init__(reason)
        self.code = code


def main(args: Sequence[str]) -> int:
    env = dict(os.environ)
    signals = SignalForwarder()
    logs = start_shipping(env)
    try:
        return run_task(args, env, logs, signals)
    except Failed as e:
        return _record_failure(logs, str(e), e.code)
    except AgentAway as e:
        logs.say(f"{e}; the cluster starts the task again", ERROR)
        return AGENT_AWAY
    except (APIError, MasterUnreachableError, NoEntrypoint, _prepare.UnsafeArchive, OSError) as e:
        return _record_failure(logs, f"the task could not be prepared: {e}", 1)
    except NoBash as e:
        return _record_failure(logs, str(e), INVALID_CONTAINER)
    finally:
        logs.close(float(env.get("DET_LOG_WAIT_TIME") or 30))


def _record_failure(logs: LogShipper, reason: str, code: int) -> int:
    """Log the reason why the task ends before its command ran, and return the exit status."""
    _exit_reason.record(reason)
    logs.say(reason, ERROR)
    return code


def run_task(
    args: Sequence[str], env: Dict[str, str], logs: LogShipper, signals: SignalForwarder
) -> int:
    spans = otlp.of_task(env)
    with spans.span("prepare container"):
        workdir = prepare(env, logs.session)
    spans.send()
    env = _credentials.add_credentials(child_environment(env))
    hooks = find_hooks(env, workdir)
    watch = None
    if env.get("DET_TASK_TYPE", "TRIAL") == "TRIAL":
        logs.say(_welcome(env))
        watch = watch_for_hangs(env, logs)
    try:
        if not hooks:
            meet_and_probe(env, watch)
            command = task_command(args, env, total_slots(env))
            code = start(command, env, workdir, logs, signals).wait()
        else:
            code = run_hooked(HookedShell(hooks), args, env, workdir, logs, signals, watch)
    finally:
        if watch is not None:
            watch.stop()
    if code != AGENT_AWAY:
        return code
    logs.say(f"exit status {AGENT_AWAY} is reserved: it is reported as 1", "LOG_LEVEL_WARNING")
    return 1


def prepare(env: Mapping[str, str], session: Session) -> str:
    workdir = env.get("DET_WORKDIR") or os.path.join(_paths.run_dir(), "workdir")
    pristine = os.path.join(_paths.run_dir(), "train", "model")
    _prepare.write_info_files(env)
    write_det_program()
    _prepare.extract_context(session, env["DET_TASK_ID"], [workdir, pristine])
    _prepare.report_accelerators(session, env)
    return workdir


def watch_for_hangs(env: Dict[str, str], logs: LogShipper) -> Optional[HangWatch]:
    """Return the watch of the ranks if the trial has a hang_timeout. A variable names the folder of their marks."""
    timeout_s = hang_timeout_s(env)
    if timeout_s is None:
        return None
    folder = _progress.directory()
    os.makedirs(folder, exist_ok=True)
    env[_progress.VARIABLE] = folder
    return HangWatch(logs.session, env["DET_ALLOCATION_ID"], timeout_s, logs, folder)


def _welcome(env: Mapping[str, str]) -> str:
    """Return the first log line of a trial. Scripts match this text."""
    container, agent = env.get("DET_CONTAINER_ID", ""), env.get("DET_AGENT_ID", "")
    return f"New trial runner in (container {container}) on agent {agent}"


def run_hooked(
    shell: HookedShell,
    args: Sequence[str],
    env: Dict[str, str],
    workdir: str,
    logs: LogShipper,
    signals: SignalForwarder,
    watch: Optional[HangWatch],
) -> int:
    # The command is needed now and does not depend on the other containers.
    command = shell.command(task_command(args, env, expected_slots(env)))
    child = start(command, shell.environment(env), workdir, logs, signals, shell.child_fds)
    shell.started()
    hooked_env = shell.wait_for_environment()
    if hooked_env is None:
        code = child.wait()
        raise Failed(
            f"a startup hook failed with exit status {code}; the task was not started", code or 1
        )
    try:
        meet_and_probe(hooked_env, watch)
    except BaseException:
        shell.abandon()
        child.wait()
        raise
    shell.go()
    return child.wait()


def meet_and_probe(env: Mapping[str, str], watch: Optional[HangWatch]) -> None:
    """Wait for the trial's other containers, and check that the trial can save checkpoints.

    The watch begins afterwards, because other containers may still pull their image."""
    if env.get("DET_TASK_TYPE", "TRIAL") != "TRIAL":
        return
    probe = StorageProbe(env)
    rendezvous(env)
    reason = probe.failure()
    if reason is not None:
        raise Failed(
            f"checkpoints cannot be saved: {reason}. Check checkpoint_storage and its credentials"
        )
    if watch is not None:
        watch.start()


def start(
    command: List[str],
    env: Mapping[str, str],
    workdir: str,
    logs: LogShipper,
    signals: SignalForwarder,
    fds: Sequence[int] = (),
) -> Child:
    try:
        return signals.start(lambda: Child(command, env, workdir, logs, fds))
    except FileNotFoundError as e:
        raise Failed(f"cannot start {command[0]!r}: {e.strerror}", NOT_FOUND) from e
    except PermissionError as e:
        raise Failed(f"cannot start {command[0]!r}: {e.strerror}", NOT_EXECUTABLE) from e


def total_slots(env: Mapping[str, str]) -> int:
    try:
        with open(os.path.join(_paths.info_dir(), "rendezvous.json")) as f:
            return sum(int(n) for n in json.load(f)["container_slot_counts"])
    except FileNotFoundError:
        return expected_slots(env)


def expected_slots(env: Mapping[str, str]) -> int:
    """Return the configured number of slots, or this container's slots without a configuration."""
    config = json.loads(env.get("DET_EXPERIMENT_CONFIG") or "{}")
    slots: Optional[int] = (config.get("resources") or {}).get("slots_per_trial")
    return len(json.loads(env.get("DET_SLOT_IDS") or "[]")) if slots is None else int(slots)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
