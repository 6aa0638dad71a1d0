"""Read the command line, and supervise the process that runs the machine."""

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fresh_machine.interpreter import find_interpreter
from fresh_machine.machine import run_machine
from fresh_machine.plan import CHECKOUT, SYSTEM, Plan
from fresh_machine.system import MACHINE_FAILED, NO_PACKAGES, Failed, leave

TOOLS = ("git", "mount", "umount", "pivot_root", "slirp4netns")
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    arguments = _arguments(sys.argv[1:])
    try:
        _require_root()
        _require_tools()
        plan = _plan(arguments)
    except Failed as e:
        print(f"fresh-machine: {e}", file=sys.stderr)
        return e.exit_code
    stop_reader, stop = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(stop)
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
        leave(lambda: run_machine(plan, stop_reader))
    os.close(stop_reader)
    return _attend(worker, stop)


def _attend(worker: int, stop: int) -> int:
    """Wait for the worker. It cleans up when the pipe closes, however this process ends."""
    signals: list[int] = []

    def on_signal(number: int, _: object) -> None:
        if not signals:
            os.close(stop)
        signals.append(number)

    for number in STOPPING:
        signal.signal(number, on_signal)
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    return 128 + signals[0] if signals else code


def _plan(arguments: argparse.Namespace) -> Plan:
    interpreter = find_interpreter(arguments.python)
    return Plan(
        folder=_make_folder(),
        interpreter=interpreter,
        carried=arguments.carry,
        as_root=not arguments.not_root,
        docker=not arguments.without_docker,
        variables=arguments.env,
        command=arguments.command,
    )


def _make_folder() -> Path:
    parent = Path(tempfile.gettempdir()).resolve()
    if (parent / "a").parts[1] in SYSTEM or parent.is_relative_to(CHECKOUT):
        raise Failed(
            f"a machine cannot be made in {parent}: set TMPDIR to another folder, such as /tmp"
        )
    folder = Path(tempfile.mkdtemp(prefix="det-fresh-", dir=parent))
    folder.chmod(0o755)
    return folder


def _require_root() -> None:
    if sys.platform != "linux":
        raise Failed("machines are made of Linux namespaces: run this on Linux")
    if os.geteuid() != 0:
        raise Failed("only root may make namespaces: run this with sudo")


def _require_tools() -> None:
    """Install slirp4netns with apt if possible. The other tools exist on every Linux with a checkout."""
    with open(__file__) as lock:
        # Machines that start together would fail on apt's own locks.
        fcntl.flock(lock, fcntl.LOCK_EX)
        apt_error = _install_slirp4netns()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        exit_code = NO_PACKAGES if missing == ["slirp4netns"] and apt_error else MACHINE_FAILED
        raise Failed(f"install {', '.join(missing)}, then try again{apt_error}", exit_code)


def _install_slirp4netns() -> str:
    """Return the error of apt, or an empty text."""
    retries = ["apt-get", "-o", "Acquire::Retries=3"]
    install = [*retries, "install", "-y", "--no-install-recommends", "slirp4netns"]
    error = ""
    for command in (install, [*retries, "update"], install):
        if shutil.which("slirp4netns") or not shutil.which("apt-get"):
            break
        print(f"fresh-machine: {' '.join(command)}", file=sys.stderr)
        result = subprocess.run(
            command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        error = f"; apt-get failed: {result.stderr.strip()}" if result.returncode else ""
    return error


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/fresh-machine",
        usage="%(prog)s [OPTION]... -- COMMAND [ARGUMENT]...",
        description="Run a command on a copy of this checkout on an empty machine: with an empty home, empty caches, "
        "no Docker data, no bridge, and only the environment variables for package sources. "
        "The copy has the same path as the checkout. "
        "The exit code is the exit code of the command, 125 if the machine cannot be made, or 77 if apt-get cannot "
        "download slirp4netns. The machine is deleted afterwards. "
        "Needs Linux and root.",
        epilog="Example: scripts/fresh-machine --python 3.13 --not-root -- make quickstart",
    )
    parser.add_argument(
        "--python",
        default="3",
        metavar="VERSION|PATH",
        help="Python of the machine: a version such as 3.13, or a path; the default is the python3 of your PATH",
    )
    parser.add_argument("--not-root", action="store_true", help="run as an unprivileged user")
    parser.add_argument("--without-docker", action="store_true", help="remove Docker's programs")
    parser.add_argument(
        "--carry",
        action="append",
        default=[],
        metavar="FOLDER",
        help="include a folder of the checkout that git ignores, such as .venv",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="pass a variable to the command",
    )
    parser.add_argument("command", nargs="+", metavar="COMMAND", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
