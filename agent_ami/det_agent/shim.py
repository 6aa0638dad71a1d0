"""Run one container of the process runtime and write its exit code. The shim outlives the agent.

It is a script with the container's folder as its argument, and imports only the standard library. It holds a lock on
`alive` while it runs, so that later agent processes can wait for its end without polling or relying on pids.
"""

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
COMMAND_NOT_FOUND = 127
COMMAND_NOT_EXECUTABLE = 126
ROOM = 256


def main(folder: Path) -> int:
    lock = os.open(folder / "alive", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if (folder / "exit.json").exists():
        # An agent recorded this container as never started before the shim got the lock.
        return 1
    _adopt_orphans()
    command = json.loads((folder / "command.json").read_text())
    # Reserve space for the exit code, because the container may fill the disk.
    _partial(folder / "exit.json").write_text(" " * ROOM)
    exit_code = _run(folder, command)
    _kill_leftovers()
    _write(folder / "exit.json", json.dumps({"exit_code": exit_code}))
    return 0


def _run(folder: Path, command: dict[str, Any]) -> int:
    with open(folder / "stdout", "ab") as out, open(folder / "stderr", "ab") as err:
        try:
            child = subprocess.Popen(
                command["argv"],
                env=command["env"],
                cwd=command["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                **command["credentials"],
            )
        except OSError as e:
            err.write(f"cannot run {command['argv'][0]}: {e.strerror}\n".encode())
            _announce(folder, 0)
            missing = isinstance(e, FileNotFoundError)
            return COMMAND_NOT_FOUND if missing else COMMAND_NOT_EXECUTABLE
    # The agent sends SIGTERM to end the container. Before this line, SIGTERM ends the shim without a container.
    signal.signal(signal.SIGTERM, lambda *_: _kill_group(child.pid))
    try:
        _announce(folder, child.pid)
    except BaseException:
        _kill_group(child.pid)
        child.wait()
        raise
    status = child.wait()
    _kill_group(child.pid)
    return 128 - status if status < 0 else status


def _announce(folder: Path, pid: int) -> None:
    """Write the pids for later agents, and notify the waiting agent on stdout."""
    pids = {"shim": os.getpid(), "pid": pid, "started": start_time(pid)}
    _write(folder / "pids.json", json.dumps(pids))
    os.write(1, b"started\n")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)


def start_time(pid: int) -> str:
    """Return the start time of a process, which distinguishes reused pids. Return "" if it is unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]


def _adopt_orphans() -> None:
    """Make this process the parent of orphaned processes of the container (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _kill_leftovers() -> None:
    """Kill processes that changed their session. Their children become ours, so repeat until none remain."""
    while True:
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        for pid in _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    me, pids = os.getpid(), []
    for entry in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
        try:
            stat = Path(f"/proc/{int(entry)}/stat").read_text()
        except (OSError, ValueError):
            continue
        if int(stat.rpartition(")")[2].split()[1]) == me:
            pids.append(int(entry))
    return pids


def _write(path: Path, text: str) -> None:
    partial = _partial(path)
    # Write in place, so that the reserved space is used.
    file = os.open(partial, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
    os.replace(partial, path)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
