"""The last run that uses the Docker engine of the tests ends it (tests/support/own_engine.py)."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import docker, own_engine
from tests.support.cluster import ROOT
from tests.support.processes import alive, eventually

# This program answers pings, which is all that these tests ask of an engine.
DOCKERD = f"""#!{sys.executable}
import os, socketserver, sys
from http.server import BaseHTTPRequestHandler

options = dict(part[2:].split("=", 1) for part in sys.argv[1:])
socket = options["host"].removeprefix("unix://")

class Engine(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"OK"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self):
        return "a client"

if os.path.exists(socket):
    os.unlink(socket)
with open(options["pidfile"], "w") as file:
    file.write(str(os.getpid()))
socketserver.ThreadingUnixStreamServer(socket, Engine).serve_forever()
"""
USING = """
import sys
from tests.support import own_engine

own_engine.use()
print("uses it", flush=True)
sys.stdin.read()
"""
TESTS = """
import os
import pytest
from tests.support import docker

def test_in_docker():
    docker.docker_engine().close()

@pytest.mark.skipif("INTERRUPTED" not in os.environ, reason="not interrupted")
def test_that_is_interrupted():
    raise KeyboardInterrupt
"""
ENDED = "ended the Docker engine that the tests had started"


class Engine:
    """The engine of a cache of this test's own."""

    def start(self) -> int:
        """Use the engine as a test does, which starts it; return its process."""
        docker.docker_engine().close()
        return self.pid

    @property
    def pid(self) -> int:
        return int(own_engine.pid_file().read_text())

    def has_ended(self, pid: int) -> bool:
        return eventually(lambda: not alive(pid), 20)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    # Sockets have short names.
    with tempfile.TemporaryDirectory(prefix="det-", dir="/tmp") as folder:
        programs = Path(folder) / "bin"
        programs.mkdir()
        (programs / "dockerd").write_text(DOCKERD)
        (programs / "dockerd").chmod(0o755)
        monkeypatch.setenv("DET_TEST_CACHE", folder)
        monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        for name in ("DOCKER_HOST", own_engine.KEEP):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(docker, "DEFAULT_ENGINE", f"unix://{folder}/none.sock")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(own_engine, "_users", [])
        monkeypatch.setattr(docker, "_engines", [])
        yield Engine()
        if (pid := own_engine._pid()) is not None:
            os.kill(pid, signal.SIGKILL)
        for process in docker._engines:
            process.kill()
            process.wait()


def run_of_tests(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(TESTS)
    plugins = ("-p", "tests.support.leftovers", "-p", "tests.support.own_engine")
    return pytester.runpytest_subprocess(*plugins, *arguments, "-W", "ignore")


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "with a worker"])
@pytest.mark.parametrize("is_interrupted", [False, True], ids=["complete", "interrupted"])
def test_run_ends_its_engine(
    engine: Engine,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    workers: tuple[str, ...],
    is_interrupted: bool,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    if is_interrupted:
        monkeypatch.setenv("INTERRUPTED", "1")
    run = run_of_tests(pytester, *workers)
    assert ENDED in run.stdout.str()
    assert engine.has_ended(engine.pid)


def test_engine_continues_on_request(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(own_engine.KEEP, "1")
    pid = engine.start()
    assert own_engine.end() == ""
    monkeypatch.delenv(own_engine.KEEP)
    # A later run finds it and keeps it, too.
    assert engine.start() == pid
    assert own_engine.end() == ""
    assert alive(pid)


def test_engine_started_outside_of_a_run_continues(engine: Engine) -> None:
    started_engine = subprocess.Popen(
        ["dockerd", f"--pidfile={own_engine.pid_file()}", f"--host={own_engine.url()}"]
    )
    try:
        assert eventually(own_engine.pid_file().exists)
        assert engine.start() == started_engine.pid
        assert own_engine.end() == ""
        assert alive(started_engine.pid)
    finally:
        started_engine.kill()
        started_engine.wait()


def test_last_run_that_uses_an_engine_ends_it(engine: Engine) -> None:
    pid = engine.start()
    other = subprocess.Popen(
        [sys.executable, "-c", USING], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"uses it\n"
    assert "other test runs still use" in own_engine.end()
    assert alive(pid)
    other.communicate()
    assert ENDED in own_engine.end()
    assert engine.has_ended(pid)


def test_process_with_the_reused_pid_of_an_engine_is_not_killed(engine: Engine) -> None:
    engine.start()
    own_engine.pid_file().write_text(str(os.getpid()))
    assert own_engine.end() == ""
