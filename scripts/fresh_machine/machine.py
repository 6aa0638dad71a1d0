"""Run a command on a machine that exists as long as the command runs."""

import os
import select
import shutil
import signal
import sys
from typing import NoReturn

from fresh_machine.cgroups import enter_cgroups, remove_cgroups
from fresh_machine.environment import environment
from fresh_machine.network import Network
from fresh_machine.plan import CHECKOUT, USER_ID, Plan
from fresh_machine.root import build_root, enter_root, lay_out
from fresh_machine.system import (
    NEW_HOST_NAME,
    NEW_IPC,
    NEW_MOUNTS,
    NEW_NETWORK,
    exit_code,
    fork_first_process,
    unshare,
)

# The status with which a shell reports an unknown command.
NOT_FOUND = 127


class Signal:
    """A signal that one process sends and another process waits for."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def send(self) -> None:
        os.write(self._write, b".")

    def wait(self, *or_closed: int) -> bool:
        """Return True if the signal arrived, or False if its sender or the pipe ended."""
        os.close(self._write)
        readable, _, _ = select.select([self._read, *or_closed], [], [])
        return self._read in readable and os.read(self._read, 1) == b"."


def run_machine(plan: Plan, stopped: int) -> int:
    """Run the command until it ends or `stopped` closes. Return its exit code."""
    try:
        lay_out(plan)
        return _run_processes(plan, stopped)
    finally:
        remove_cgroups(plan.folder.name)
        shutil.rmtree(plan.folder)


def _run_processes(plan: Plan, stop_reader: int) -> int:
    built, connected = Signal(), Signal()
    first = fork_first_process(lambda: _first_process(plan, built, connected))
    network = None
    try:
        if built.wait(stop_reader):
            network = Network(first, plan.folder / "network.log")
            connected.send()
        select.select([os.pidfd_open(first), stop_reader], [], [])
    finally:
        os.kill(first, signal.SIGKILL)
        # It ends after all other processes of the machine.
        status = os.waitpid(first, 0)[1]
        if network is not None:
            network.close()
    return exit_code(status)


def _first_process(plan: Plan, built: Signal, connected: Signal) -> int:
    enter_cgroups(plan.folder.name)
    unshare(NEW_MOUNTS | NEW_HOST_NAME | NEW_IPC | NEW_NETWORK)
    build_root(plan)
    enter_root(plan)
    built.send()
    if not connected.wait():
        return NOT_FOUND
    command = os.fork()
    if command == 0:
        _become_command(plan)
    while True:
        # This also reaps orphaned processes.
        pid, status = os.wait()
        if pid == command:
            return exit_code(status)


def _become_command(plan: Plan) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if not plan.as_root:
        os.setgroups([])
        os.setgid(USER_ID)
        os.setuid(USER_ID)
    os.chdir(CHECKOUT)
    variables = environment(plan)
    program = shutil.which(plan.command[0], path=variables["PATH"])
    if program is None:
        print(f"fresh-machine: {plan.command[0]} is not found", file=sys.stderr)
        os._exit(NOT_FOUND)
    os.execve(program, list(plan.command), variables)
