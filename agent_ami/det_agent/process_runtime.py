"""Run containers as plain processes, for machines without an engine and for tests."""

import contextlib
import dataclasses
import fcntl
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from det_controlplane.core.agent_protocol import ContainerSpec, Slot

from det_agent import exit_reason, shim
from det_agent.environment import RUN_DIR, device_env, python_path
from det_agent.identity import write_atomically
from det_agent.process_paths import PathMap, hand_over, lay_out, may_switch_user
from det_agent.process_usage import usage_of_tree
from det_agent.runtime import (
    ContainerKey,
    Exit,
    GatewayAddress,
    OutputLine,
    Say,
    Started,
    StartFailed,
    Stream,
    Usage,
)
from det_agent.task_logs import now_rfc3339
from det_agent.task_python import MISLEADING, BasePython, NoPython, make_environment

RECORD = "container.json"  # the last file before the container's process starts
OUTPUT_LOOK_S = 0.25
READ_BYTES = 1024 * 1024
CHECK_TIMEOUT_S = 60
SHARED_FS = (
    "/determined_shared_fs"  # a checkpoint storage, which is created with the first checkpoint
)
_log = logging.getLogger(__name__)
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class ProcessRuntime:
    kind: Literal["docker", "process"] = "process"

    def __init__(
        self,
        root: Path,
        cluster_id: Callable[[], str],
        slots: Sequence[Slot],
        harness: Path,
        deps: Path,
        python: str = "",
    ) -> None:
        self._root = root
        self._cluster_id = cluster_id
        self._slots = slots
        self._harness = harness
        self._deps = deps
        self._python = python or sys.executable
        self._shims: dict[str, subprocess.Popen[bytes]] = {}

    def is_isolated(self, network: str) -> bool:
        return False

    def host_address(self, network: str, gateway: GatewayAddress) -> str:
        return gateway.host or "127.0.0.1"

    def check(self, gateway: GatewayAddress) -> None:
        """Start a process in a folder like a task's folder. Raises StartFailed."""
        try:
            with tempfile.TemporaryDirectory(dir=self._root, prefix=".check-") as folder:
                environment = make_environment(self._base_python, Path(folder) / "python")
                command = [str(environment / "python"), "-I", "-S", "-c", ""]
                subprocess.run(command, cwd=folder, check=True, timeout=CHECK_TIMEOUT_S)
        except NoPython as e:
            raise StartFailed("agent_error", str(e)) from e
        except (OSError, subprocess.SubprocessError) as e:
            raise StartFailed("agent_error", f"cannot start a process on this machine: {e}") from e

    def prepare(self, spec: ContainerSpec, say: Say, cancelled: Callable[[], bool]) -> None:
        """Do nothing. Processes use the installed software, and the image is only a name."""

    def start(self, spec: ContainerSpec, env: Mapping[str, str]) -> Started:
        key = ContainerKey.of(spec)
        _require_paths(spec)
        folder = self._new_folder(key)
        try:
            paths = lay_out(spec, folder)
            base = self._base_of(env)
            programs = make_environment(base, folder / "python")
            hand_over(folder, spec.user)
            command = self._command(spec, env, paths, (programs, base.executable.parent))
            ports = {port: port for port in (*spec.ports, *spec.local_ports)}
            started = Started(key, "", ports, spec.slot_ids)
            self._write_record(folder, started, command)
            pid = self._spawn(key, folder)
        except StartFailed:
            self.remove(key)
            raise
        except NoPython as e:
            self.remove(key)
            raise StartFailed("agent_error", str(e)) from e
        except (OSError, ValueError) as e:
            self.remove(key)
            raise StartFailed("agent_error", f"cannot start the container's process: {e}") from e
        return dataclasses.replace(started, runtime_id=str(pid))

    def kill(self, key: ContainerKey) -> None:
        pids = _read(self._root / key.place / "pids.json")
        if pids and self._alive(key):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids["shim"], signal.SIGTERM)

    def wait(self, started: Started) -> Exit:
        folder = self._root / started.key.place
        try:
            lock = os.open(folder / "alive", os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return Exit(None, "the container's folder was deleted")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return self._exit_of(folder)
        finally:
            os.close(lock)
            child = self._shims.pop(started.key.place, None)
            if child is not None:
                child.wait()

    def output(self, started: Started, stream: Stream, cursor: str) -> Iterator[OutputLine]:
        position = int(cursor or 0)
        path = self._root / started.key.place / stream
        while True:
            # Check this before reading. All output of an ended process is then read.
            ended = not self._alive(started.key)
            for line in _lines_from(path, position, whole=not ended):
                position += len(line)
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                yield OutputLine(text, now_rfc3339(), str(position))
            if ended:
                return
            time.sleep(OUTPUT_LOOK_S)

    def addresses(self, started: Started, port: int) -> Sequence[tuple[str, int]]:
        return [("127.0.0.1", port)] if port in started.host_ports else []

    def usage(self, started: Started) -> Usage | None:
        pids = _read(self._root / started.key.place / "pids.json")
        if not pids or not self._alive(started.key):
            return None
        return usage_of_tree(pids["shim"])

    def adoptable(self, cluster_id: str) -> Sequence[Started]:
        adopted = []
        for path in sorted(self._root.glob(f"*/{RECORD}")):
            body = _read(path)
            if body and body["cluster_id"] == cluster_id:
                key = ContainerKey.from_json(body["key"])
                ports = {int(k): v for k, v in body["host_ports"].items()}
                pids = _read(path.parent / "pids.json") or {}
                slot_ids = tuple(body.get("slot_ids") or ())
                adopted.append(Started(key, str(pids.get("pid") or ""), ports, slot_ids))
        return adopted

    def remove_leftovers(self) -> None:
        """Delete folders without a record: no process was started in them, or their removal was interrupted."""
        for folder in self._root.iterdir():
            if folder.is_dir() and not (folder / RECORD).exists():
                _log.info("removing %s, which an earlier process of this agent left", folder)
                shutil.rmtree(folder, ignore_errors=True)

    def remove(self, key: ContainerKey) -> None:
        shutil.rmtree(self._root / key.place, ignore_errors=True)

    @cached_property
    def _base_python(self) -> BasePython:
        return BasePython.of(self._python)

    def _base_of(self, env: Mapping[str, str]) -> BasePython:
        """Return the Python that the task requests, or the default Python of tasks."""
        requested = env.get("DET_PYTHON_EXECUTABLE")
        if not requested:
            return self._base_python
        try:
            return BasePython.of(requested)
        except NoPython as e:
            raise StartFailed("container_failed", str(e)) from e

    def _new_folder(self, key: ContainerKey) -> Path:
        if not _SAFE_NAME.fullmatch(key.place):
            raise StartFailed("agent_error", f"container id {key.id!r} is no file name")
        folder = self._root / key.place
        if folder.exists():
            raise StartFailed("agent_error", f"container {key.id} was already started here")
        folder.mkdir(parents=True)
        folder.chmod(0o711)
        return folder

    def _command(
        self, spec: ContainerSpec, env: Mapping[str, str], paths: PathMap, programs: Sequence[Path]
    ) -> dict[str, Any]:
        work_dir = paths.host(spec.work_dir)
        if not os.path.isdir(work_dir):
            raise StartFailed(
                "container_failed",
                f"the working directory {work_dir} does not exist on this machine: create it, or leave work_dir out",
            )
        credentials: dict[str, Any] = {}
        if may_switch_user(spec.user):
            credentials = {"user": spec.user.uid, "group": spec.user.gid, "extra_groups": []}
        full_env = self._env(spec, env, paths, programs) | {"DET_WORKDIR": work_dir}
        argv = [paths.host(part) for part in spec.command]
        return {"argv": argv, "env": full_env, "cwd": work_dir, "credentials": credentials}

    def _env(
        self, spec: ContainerSpec, env: Mapping[str, str], paths: PathMap, programs: Sequence[Path]
    ) -> dict[str, str]:
        inherited = {
            k: v for k, v in os.environ.items() if not k.startswith("DET_") and k not in MISLEADING
        }
        machine_path = inherited.get("PATH", os.defpath)
        inherited["PATH"] = os.pathsep.join(map(str, (*programs, machine_path)))
        inherited["VIRTUAL_ENV"] = str(programs[0].parent)
        mapped = {k: paths.host(v) if v.startswith(RUN_DIR) else v for k, v in env.items()}
        return {
            **inherited,
            **mapped,
            **device_env(spec, self._slots),
            "DET_RUN_DIR": paths.host(RUN_DIR),
            "DET_PATH_MAP": json.dumps(dict(paths.entries)),
            "PYTHONPATH": python_path(str(self._harness), env.get("PYTHONPATH", "")),
            "DET_DEPS_DIR": str(self._deps),
        }

    def _write_record(self, folder: Path, started: Started, command: dict[str, Any]) -> None:
        record = {
            "cluster_id": self._cluster_id(),
            "key": dataclasses.asdict(started.key),
            "host_ports": dict(started.host_ports),
            "slot_ids": list(started.slot_ids),
        }
        write_atomically(folder / "command.json", json.dumps(command))
        write_atomically(folder / RECORD, json.dumps(record))

    def _spawn(self, key: ContainerKey, folder: Path) -> int:
        with open(folder / "shim.log", "ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", shim.__file__, str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._shims[key.place] = child
        assert child.stdout is not None
        with child.stdout:
            announced = child.stdout.readline()
        if announced != b"started\n":
            reason = (folder / "shim.log").read_text(errors="replace").strip().splitlines()
            raise OSError(reason[-1] if reason else "its watcher ended at once")
        pids = _read(folder / "pids.json") or {}
        return int(pids["pid"])

    def _alive(self, key: ContainerKey) -> bool:
        """Return whether the shim holds its lock. Unlike a pid, a lock cannot belong to another process or a zombie."""
        try:
            lock = os.open(self._root / key.place / "alive", os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(lock)

    def _exit_of(self, folder: Path) -> Exit:
        ended = _read(folder / "exit.json")
        if ended is not None:
            reason = (
                exit_reason.of_file(folder / "run" / exit_reason.FILE) if ended["exit_code"] else ""
            )
            return Exit(ended["exit_code"], ended.get("message", ""), reason)
        pids = _read(folder / "pids.json")
        if pids and pids["pid"] and shim.start_time(pids["pid"]) == pids["started"]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pids["pid"], signal.SIGKILL)
        message = "the process that watches over the container was killed" if pids else ""
        message = message or "the agent was restarted before the container's process began"
        # Write this before the lock is released. A shim that starts late must find the file and exit.
        write_atomically(folder / "exit.json", json.dumps({"exit_code": None, "message": message}))
        return Exit(None, message)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        body = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return body if isinstance(body, dict) else None


def _lines_from(path: Path, position: int, whole: bool) -> Iterator[bytes]:
    """Yield the lines after `position`. With `whole`, an unfinished last line is only yielded if it is very long."""
    try:
        f = open(path, "rb")  # noqa: SIM115
    except FileNotFoundError:
        return
    with f:
        f.seek(position)
        rest = b""
        while piece := f.read(READ_BYTES):
            *lines, rest = (rest + piece).splitlines(keepends=True)
            yield from lines
            if len(rest) >= READ_BYTES:
                yield rest
                rest = b""
        if rest and (rest.endswith(b"\n") or not whole):
            yield rest


def _require_paths(spec: ContainerSpec) -> None:
    """Reject missing mounts, as Docker does. Otherwise a task would not find its data."""
    mounted = [m.host_path for m in spec.mounts if m.container_path.rstrip("/") != SHARED_FS]
    missing = [path for path in mounted if not os.path.exists(path)]
    if missing:
        raise StartFailed(
            "container_failed", f"this machine has no {missing[0]}, which the task mounts"
        )
