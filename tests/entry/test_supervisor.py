"""The supervisor keeps processes alive, without spinning, and takes them down with it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.processes import alive, eventually

SCRIPT = """
import json, logging, pathlib, sys
from det_controlplane.entry.local.supervisor import Program, Supervisor
logging.basicConfig()
folder = pathlib.Path(sys.argv[1])
def report():
    fresh = folder / "new"
    fresh.write_text(json.dumps({k.name: k.pid for k in supervisor.kept()}))
    fresh.replace(folder / "pids")
supervisor = Supervisor(report)
for name, command in json.loads(sys.argv[2]).items():
    supervisor.keep(Program(name, command, folder / "log", ties=name.startswith("tied")))
supervisor.run(lambda: supervisor.drop("worker"), (folder / "hears").touch)
supervisor.stop()
"""
SLEEP, DIE = ["sleep", "600"], ["false"]


class Watched:
    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.process = process

    def pids(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.folder / "pids").read_text()))
        except FileNotFoundError:
            return {}

    def pid(self, name: str) -> int:
        return int(self.pids().get(name) or 0)

    def cpu_ticks(self) -> int:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])


@contextmanager
def supervised(folder: Path, **commands: list[str]) -> Iterator[Watched]:
    arguments = [sys.executable, "-c", SCRIPT, str(folder), json.dumps(commands)]
    process = subprocess.Popen(arguments)
    process_group = Watched(folder, process)
    try:
        living = [name for name, command in commands.items() if command != DIE]
        assert eventually((folder / "hears").exists)
        assert eventually(lambda: all(process_group.pid(name) for name in living))
        yield process_group
    finally:
        process.terminate()
        process.wait(60)


def test_killed_program_is_restarted(tmp_path: Path) -> None:
    with supervised(tmp_path, worker=SLEEP) as process_group:
        first = process_group.pid("worker")
        os.kill(first, signal.SIGKILL)
        assert eventually(lambda: process_group.pid("worker") not in (0, first))
        assert alive(process_group.pid("worker"))


def test_programs_are_restarted_although_their_pids_cannot_be_stored(tmp_path: Path) -> None:
    with supervised(tmp_path, worker=SLEEP, other=SLEEP) as process_group:
        worker, other = process_group.pid("worker"), process_group.pid("other")
        (tmp_path / "new").mkdir()  # like a full disk: files of that name cannot be written
        os.kill(worker, signal.SIGKILL)
        assert eventually(lambda: not alive(worker))
        (tmp_path / "new").rmdir()
        os.kill(other, signal.SIGKILL)
        before = {0, worker, other}
        assert eventually(lambda: before.isdisjoint(map(process_group.pid, ("worker", "other"))))
        assert alive(process_group.pid("worker"))


def test_failing_program_is_restarted_with_pauses(tmp_path: Path) -> None:
    with supervised(tmp_path, worker=SLEEP, broken=DIE) as process_group:
        before = process_group.cpu_ticks()
        assert not eventually(lambda: process_group.cpu_ticks() - before > 50, seconds=1.5)


def test_sigterm_ends_all_programs(tmp_path: Path) -> None:
    with supervised(tmp_path, one=SLEEP, two=SLEEP) as process_group:
        pids = [process_group.pid("one"), process_group.pid("two")]
    assert not any(alive(pid) for pid in pids)
    assert process_group.process.returncode == 0


def test_signal_after_readiness_does_not_kill_the_supervisor() -> None:
    code = (
        "import os, signal; from det_controlplane.entry.local.supervisor import Supervisor\n"
        "Supervisor().run(lambda: None, lambda: os.kill(os.getpid(), signal.SIGTERM)); print('stops')"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stdout) == (0, "stops\n"), result.stderr


def test_removed_program_ends_and_is_not_restarted(tmp_path: Path) -> None:
    with supervised(tmp_path, worker=SLEEP, other=SLEEP) as process_group:
        worker, other = process_group.pid("worker"), process_group.pid("other")
        process_group.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: "worker" not in process_group.pids())
        assert not alive(worker)
        assert alive(other)


def test_tied_program_ends_with_a_killed_supervisor(tmp_path: Path) -> None:
    with supervised(tmp_path, tied=["sh", "-c", "read line; exit 0"]) as process_group:
        tied = process_group.pid("tied")
        process_group.process.kill()
        assert eventually(lambda: not alive(tied))
