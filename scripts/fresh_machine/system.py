"""Linux system calls without a Python function, and functions for processes."""

import ctypes
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

# The exit status if the machine or the command could not be started, as with `docker run`.
MACHINE_FAILED = 125
# The exit status if apt-get cannot download a package that the machine needs.
NO_PACKAGES = 77
NEW_MOUNTS, NEW_CGROUPS, NEW_HOST_NAME = 0x00020000, 0x02000000, 0x04000000
NEW_IPC, NEW_PROCESSES, NEW_NETWORK = 0x08000000, 0x20000000, 0x40000000
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG

_libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """The machine could not be made. The message has the reason and the remedy."""

    def __init__(self, message: str, exit_code: int = MACHINE_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def unshare(namespaces: int) -> None:
    _checked(_libc.unshare(namespaces), "unshare")


def fork_first_process(run: Callable[[], int]) -> int:
    """Fork the first process of a new PID namespace. All processes of the namespace end with it."""
    ours = os.open("/proc/self/ns/pid", os.O_RDONLY)
    unshare(NEW_PROCESSES)
    pid = os.fork()
    if pid == 0:
        _checked(_libc.prctl(_DIES_WITH_PARENT, signal.SIGKILL), "prctl")
        leave(run)
    _checked(_libc.setns(ours, NEW_PROCESSES), "setns")
    os.close(ours)
    return pid


def leave(run: Callable[[], int]) -> NoReturn:
    """Exit this forked process with the function's result, without the parent's cleanup."""
    code = MACHINE_FAILED
    try:
        code = run()
    except Failed as e:
        print(f"fresh-machine: {e}", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def exit_code(status: int) -> int:
    """Return the exit code that a shell shows for a process."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def run(*command: str) -> str:
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        raise Failed(f"{' '.join(command)}: {result.stderr.strip()}")
    return result.stdout


def mount(*arguments: str) -> None:
    run("mount", *arguments)


def _checked(result: int, call: str) -> None:
    if result != 0:
        raise Failed(f"{call}: {os.strerror(ctypes.get_errno())}")
