"""The process that watches over a container without an engine, on a disk that is full."""

import json
import subprocess
import sys
import uuid
from pathlib import Path

from det_agent import shim

from tests.support.processes import eventually


def start(folder: Path, argv: list[str]) -> "subprocess.Popen[bytes]":
    command = {"argv": argv, "env": {}, "cwd": str(folder), "credentials": {}}
    (folder / "command.json").write_text(json.dumps(command))
    return subprocess.Popen(
        [sys.executable, "-I", "-S", shim.__file__, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_exit_code_needs_no_further_disk_space(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with start(tmp_path, ["/bin/sh", "-c", f"until test -e {go}; do :; done; exit 3"]) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"started\n"
        reserved = [path.stat() for path in tmp_path.glob(".exit.json*")]
        go.touch()
    exit_file = tmp_path / "exit.json"
    assert json.loads(exit_file.read_text()) == {"exit_code": 3}
    assert [(exit_file.stat().st_ino, exit_file.stat().st_size)] == [
        (t.st_ino, t.st_size) for t in reserved
    ]


def test_container_ends_if_its_process_ids_cannot_be_stored(tmp_path: Path) -> None:
    (tmp_path / ".pids.json.partial").mkdir()
    mark = uuid.uuid4().hex
    with start(tmp_path, ["/bin/sh", "-c", "sleep 600; exit", mark]) as running:
        output, errors = running.communicate(timeout=60)
    assert output == b""
    assert b"IsADirectoryError" in errors
    assert eventually(lambda: not _processes_with(mark))


def _processes_with(mark: str) -> list[str]:
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in path.read_text():
                pids.append(path.parent.name)
        except OSError:
            continue
    return pids
