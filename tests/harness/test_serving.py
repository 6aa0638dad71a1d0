"""The programs in the containers of notebooks, shells and TensorBoards."""

import ast
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from determined.common.failures import Failure
from determined.common.http import NotFoundError, Session
from determined.exec import _install, _serve, notebook, shell, tensorboard

from tests.support.fake_master import FakeMaster
from tests.support.ports import free_port
from tests.support.ssh import require_ssh

ROOT = Path(__file__).resolve().parents[2]


class Master:
    """A fake cluster that records the requests of a task."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, object]] = []
        self.heard = threading.Condition()
        master = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                with master.heard:
                    master.requests.append((self.command, self.path, json.loads(body or b"null")))
                    master.heard.notify_all()
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_POST = do_PUT = _answer

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def until(self, path: str) -> object:
        def find_request() -> object:
            return next(([b] for _, p, b in self.requests if p.endswith(path)), None)

        with self.heard:
            assert self.heard.wait_for(find_request, 60), self.requests
            return find_request()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> Iterator[Master]:
    server = Master()
    for name, value in {
        "DET_MASTER": f"http://127.0.0.1:{server.server.server_port}",
        "DET_ALLOCATION_ID": "t.1",
        "DET_TASK_ID": "t",
        "DET_RUNTIME": "process",
    }.items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()


def module(name: str, **env: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", f"determined.exec.{name}"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "harness"), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_readiness_is_reported_again_after_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, ready = FakeMaster(), "/api/v1/allocations/t.1/ready"
    answers = iter([503] * 7)
    cluster.on("POST", ready, lambda _: (next(answers, 200), {}))
    session, looked = Session(cluster.url, {}, retries=0), threading.Event()
    monkeypatch.setenv("DET_ALLOCATION_ID", "t.1")
    monkeypatch.setattr(_serve, "bounded_task_session", lambda: session)
    monkeypatch.setattr(_serve, "_AGAIN_S", 0.0)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        endless = [sys.executable, "-c", "import signal; signal.pause()"]
        service = _serve.Service(endless, port, look=lambda _: looked.set(), every_s=0.0)
        try:
            assert looked.wait(60)
        finally:
            service._forward(signal.SIGKILL, None)
            assert service.wait() == 128 + signal.SIGKILL
    assert len(cluster.received("POST", ready)) == 8
    session.close()
    cluster.close()


@pytest.mark.parametrize("env", [{}, {"DET_NOTEBOOK_TOKEN": ""}, {"DET_NOTEBOOK_TOKEN": "*" * 8}])
def test_notebook_without_a_token_does_not_start(env: dict[str, str]) -> None:
    with pytest.raises(Failure, match="gave this notebook no token"):
        notebook.token_of(env)
    assert notebook.token_of({"DET_NOTEBOOK_TOKEN": "told-to-its-owner"}) == "told-to-its-owner"


def test_jupyter_terminals_keep_the_path_of_the_task() -> None:
    (option,) = [o for o in notebook.command("python3", 8888, "task") if "terminado" in o]
    name, _, value = option.partition("=")
    (shell_command,) = ast.literal_eval(value).values()
    assert name == "--ServerApp.terminado_settings"
    assert len(shell_command) == 1, "an option such as -l would make a login shell"


@pytest.mark.parametrize("name", ["notebook", "tensorboard"])
def test_missing_program_error_names_the_package(master: Master, name: str) -> None:
    product = {"notebook": "jupyterlab", "tensorboard": "tensorboard"}[name]
    with module(name, PYTHONNOUSERSITE="1", DET_INSTALL_MISSING="0") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 80  # `det why` explains this exit code
    assert f"pip install {product}" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["notebook", "tensorboard"])
def test_exit_reason_names_image_without_the_program(
    master: Master, tmp_path: Path, name: str
) -> None:
    image = {"DET_RUNTIME": "docker", "DET_IMAGE": "team/a:1"}
    env = {**image, "DET_RUN_DIR": str(tmp_path), "DET_INSTALL_MISSING": "0"}
    with module(name, PYTHONNOUSERSITE="1", **env) as process:
        _, err = process.communicate(timeout=60)
    (sentence,) = err.splitlines()
    assert " is not installed in image team/a:1: choose an image that has it" in sentence
    assert (tmp_path / "exit-reason").read_text() == sentence


def test_old_python_is_rejected_before_the_harness_is_loaded(tmp_path: Path) -> None:
    pretend = "import sys; sys.version_info = (3, 8, 10); import determined.exec"
    result = subprocess.run(
        [sys.executable, "-c", pretend],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "harness"),
            "DET_IMAGE": "team/a:1",
            "DET_RUN_DIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    sentence = (
        "tasks need Python 3.9 or newer, and python3 of image team/a:1 is Python 3.8: choose another image"
        " (environment.image)"
    )
    assert (result.returncode, result.stderr) == (80, f"{sentence}\n")
    assert (tmp_path / "exit-reason").read_text() == sentence


def test_shell_session_has_context_directory_and_variables(master: Master, tmp_path: Path) -> None:
    require_ssh()
    folder, port = tmp_path / "ssh", free_port()
    folder.mkdir()
    key = tmp_path / "key"
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(make, check=True)
    shutil.copy(f"{key}.pub", folder / "authorized_keys")
    work = tmp_path / "work"
    work.mkdir()
    odd = 'it\'s\n$HOME "quoted"'
    env = {
        "DET_RUN_DIR": str(tmp_path),
        "SHELL_PORT": str(port),
        "DET_WORKDIR": str(work),
        "ODD": odd,
    }
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    safe = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes")
    options = ("BatchMode=yes", *safe)
    ssh = ["ssh", *(w for o in options for w in ("-o", o)), "-p", str(port), f"{user}@127.0.0.1"]
    ask = [
        sys.executable,
        "-c",
        "'import os; print(os.getcwd()); print(repr(os.environ[\"ODD\"]))'",
    ]
    with module("shell", **env) as server:
        try:
            assert master.until("/allocations/t.1/ready") == [{"user": user}]
            let_in = subprocess.run(
                [*ssh, "-i", str(key), *ask], capture_output=True, text=True, timeout=60
            )
            assert let_in.stdout.splitlines() == [str(work), repr(odd)], let_in.stderr
            status = subprocess.run([*ssh, "-i", str(key), "exit 5"], timeout=60, check=False)
            assert status.returncode == 5
            other = tmp_path / "other"
            subprocess.run([*make[:-1], str(other)], check=True)
            result = subprocess.run(
                [*ssh, "-i", str(other), "id"], capture_output=True, text=True, timeout=60
            )
            assert "Permission denied" in result.stderr
        finally:
            server.terminate()
            server.communicate(timeout=60)


def test_tensorboard_waits_for_the_first_event_file(
    master: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"type": "directory", "container_path": str(tmp_path / "storage")}
    (tmp_path / "shown").mkdir()
    described_source = {
        "name": "exp-1/trial-2",
        "path": "c/tensorboard/experiment/1/trial/2",
        "storage": place,
    }
    source = tensorboard.Source(described_source, str(tmp_path / "shown"))
    monkeypatch.setattr(tensorboard, "_LOOK_S", 0.01)
    with pytest.raises(Failure, match="no metrics appeared"):
        tensorboard.wait_for_metrics([source], timeout_s=0.05)
    assert master.requests[0][1].endswith("/waiting")
    folder = tmp_path / "storage/c/tensorboard/experiment/1/trial/2"
    folder.mkdir(parents=True)
    (folder / "events.out.tfevents.1").write_bytes(b"x")
    tensorboard.wait_for_metrics([source], timeout_s=0)
    assert (tmp_path / "shown/exp-1/trial-2/events.out.tfevents.1").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("name", "is_shown"),
    [
        ("host_1.1700000000.pt.trace.json", True),
        ("host_1.1700000000.pt.trace.json.gz", True),
        ("plugins/profile/run/host.xplane.pb", True),
        ("notes.json", False),
    ],
)
def test_tensorboard_shows_profiler_traces(tmp_path: Path, name: str, is_shown: bool) -> None:
    file = tmp_path / "storage/c/e" / name
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    place = {"type": "directory", "container_path": str(tmp_path / "storage")}
    source = tensorboard.Source({"name": "exp-1", "path": "c/e", "storage": place}, str(tmp_path))
    assert source.update() is is_shown


def test_growing_files_of_remote_storage_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from determined.common.storage import DirectoryStorageManager

    monkeypatch.setattr(DirectoryStorageManager, "direct_path", lambda *_: None)
    place = {"type": "directory", "container_path": str(tmp_path / "storage")}
    folder = tmp_path / "storage/c/e"
    folder.mkdir(parents=True)
    source = tensorboard.Source({"name": "exp-1", "path": "c/e", "storage": place}, str(tmp_path))
    assert not source.update()
    for content in (b"one", b"one and two"):
        (folder / "events.out.tfevents.1").write_bytes(content)
        assert source.update()
        assert (tmp_path / "exp-1/events.out.tfevents.1").read_bytes() == content


def test_idle_detection_follows_the_configured_type() -> None:
    answers = {
        "kernels": [{"connections": 0, "execution_state": "idle"}],
        "terminals": [],
        "status": {"last_activity": "2020-01-01T00:00:00Z"},
    }

    class Asked(notebook.Jupyter):
        def _get(self, path: str) -> object:
            return answers[path]

    def idle(kind: str) -> bool:
        return Asked(1, "", "", kind).is_idle()

    kinds = ("kernels_or_terminals", "kernel_connections", "activity")
    assert [idle(kind) for kind in kinds] == [False, True, True]
    answers["kernels"] = [{"connections": 1, "execution_state": "busy"}]
    assert [idle(kind) for kind in kinds] == [False, False, False]
    answers["kernels"] = []
    assert idle("kernels_or_terminals")


def test_jupyter_without_terminals_can_be_idle() -> None:
    class WithoutTerminals(notebook.Jupyter):
        def _get(self, path: str) -> object:
            if path == "terminals":
                raise NotFoundError(404, "Not Found")
            return []

    assert WithoutTerminals(1, "", "", "kernels_or_terminals").is_idle()


def test_jupyter_paths_include_its_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    origin = "/env/lib/python3.11/site-packages/jupyterlab/__init__.py"
    spec = importlib.machinery.ModuleSpec("jupyterlab", None, origin=origin)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    assert notebook.paths({"JUPYTER_PATH": "/mine"}) == {
        "JUPYTER_CONFIG_PATH": "/env/etc/jupyter",
        "JUPYTER_PATH": "/mine:/env/share/jupyter",
    }


def test_waits_for_a_port_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setenv("DET_RUNTIME", "process")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(Failure, match=f"port {port} is in use"):
            _serve.wait_for_port(port, timeout_s=0.01)


@pytest.mark.parametrize(
    ("runtime", "hint"),
    [("docker", "choose an image that has it"), ("process", "DET_PYTHON_EXECUTABLE")],
)
def test_hint_depends_on_the_runtime(
    monkeypatch: pytest.MonkeyPatch, runtime: str, hint: str
) -> None:
    monkeypatch.setenv("DET_RUNTIME", runtime)
    monkeypatch.setenv("DET_INSTALL_MISSING", "0")
    with pytest.raises(Failure, match="Nothing is not installed") as error:
        _install.interpreter(_install.Program("no_such_module", "Nothing", ("nothing==1",)))
    assert hint in error.value.hint
    assert ("image" in error.value.hint) == (runtime == "docker")
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(Failure) as ssh_error:
        shell._programs()
    assert ("image" in ssh_error.value.hint) == (runtime == "docker")


def test_missing_sshd_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(Failure, match="sshd is not installed") as error:
        shell._programs()
    assert "openssh-server" in error.value.hint
