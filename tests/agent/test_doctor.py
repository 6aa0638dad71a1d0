"""Findings of `det-agent doctor`, with cause and fix."""

import email.utils
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from det_agent import doctor
from det_agent.doctor import Finding, Target, Verdict, examine
from det_agent.main import main
from det_agent.settings import load

from tests.support.docker_image import IMAGE


class Clock:
    """A cluster with a clock that differs from this machine's."""

    def __init__(self, ahead_s: float) -> None:
        class Answering(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response_only(200)
                self.send_header("Date", email.utils.formatdate(time.time() + ahead_s, usegmt=True))
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *args: Any) -> None:
                """Log no lines."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.thread = Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def cluster() -> Iterator[Clock]:
    clock = Clock(0)
    yield clock
    clock.close()


def findings(
    tmp_path: Path, url: str, *, storage: str = "", image: str = IMAGE, **options: Any
) -> dict[str, Finding]:
    flags = {"master_url": url, "state_dir": str(tmp_path / "state"), **options}
    results = examine(Target(load(flags, {}), image, storage))
    return {finding.check: finding for finding in results}


def test_unreachable_cluster_fails_with_its_address(tmp_path: Path) -> None:
    results = findings(tmp_path, "http://127.0.0.1:9", container_runtime="process")
    assert results["API"].verdict is Verdict.FAILED
    assert "127.0.0.1:9" in results["API"].cause
    assert "master_url" in results["API"].remedy
    assert results["clock"].verdict is Verdict.SKIPPED


def test_equal_clocks_pass(tmp_path: Path, cluster: Clock) -> None:
    results = findings(tmp_path, cluster.url, container_runtime="process")
    assert results["API"].verdict is results["clock"].verdict is Verdict.OK


@pytest.mark.parametrize(("ahead_s", "verdict"), [(-60, Verdict.WARNING), (3600, Verdict.FAILED)])
def test_different_clocks_warn_or_fail(tmp_path: Path, ahead_s: float, verdict: Verdict) -> None:
    clock = Clock(ahead_s)
    try:
        results = findings(tmp_path, clock.url, container_runtime="process")
    finally:
        clock.close()
    assert results["clock"].verdict is verdict
    assert "timedatectl" in results["clock"].remedy


def test_full_disk_fails(tmp_path: Path, cluster: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "TOO_LITTLE_SPACE_BYTES", 2**60)
    results = findings(tmp_path, cluster.url, container_runtime="process")
    assert results["disk"].verdict is Verdict.FAILED
    assert "docker system prune" in results["disk"].remedy


def test_only_writable_storage_passes(tmp_path: Path, cluster: Clock) -> None:
    options = {"container_runtime": "process"}
    results = findings(tmp_path, cluster.url, storage=str(tmp_path / "checkpoints"), **options)
    assert results["object store"].verdict is Verdict.OK
    assert list((tmp_path / "checkpoints").iterdir()) == []
    (tmp_path / "a-file").write_text("")
    results = findings(tmp_path, cluster.url, storage=str(tmp_path / "a-file" / "x"), **options)
    assert results["object store"].verdict is Verdict.FAILED


def test_missing_engine_fails_only_if_docker_is_required(
    tmp_path: Path, cluster: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    results = findings(tmp_path, cluster.url, container_runtime="docker")
    assert results["Docker engine"].verdict is Verdict.FAILED
    assert "systemctl" in results["Docker engine"].remedy
    either = findings(tmp_path, cluster.url)
    assert either["Docker engine"].verdict is Verdict.WARNING
    assert either["image pull"].verdict is Verdict.SKIPPED


@pytest.mark.docker
def test_healthy_machine_passes_all_checks(
    docker_client: Any, tmp_path: Path, cluster: Clock
) -> None:
    results = findings(tmp_path, cluster.url, container_runtime="docker")
    checks = ("Docker engine", "containers reach the agent", "image pull", "GPU runtime", "API")
    assert {results[check].verdict for check in checks} == {Verdict.OK}


@pytest.mark.docker
def test_containers_without_a_route_to_the_agent_fail(
    docker_client: Any, tmp_path: Path, cluster: Clock
) -> None:
    results = findings(tmp_path, cluster.url, container_runtime="docker", bind_ip="127.0.0.1")
    reach = results["containers reach the agent"]
    assert reach.verdict is Verdict.FAILED
    assert "firewall" in reach.cause


@pytest.mark.docker
def test_missing_image_fails_with_a_pull_command(
    docker_client: Any, tmp_path: Path, cluster: Clock
) -> None:
    image = "127.0.0.1:9/nothing:latest"
    results = findings(tmp_path, cluster.url, container_runtime="docker", image=image)
    assert results["image pull"].verdict is Verdict.FAILED
    assert f"docker pull {image}" in results["image pull"].remedy


def test_command_prints_every_check_and_exits_by_the_result(
    tmp_path: Path, cluster: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--state-dir", str(tmp_path), "--runtime", "process"]
    assert main(["doctor", "--master-url", cluster.url, *flags]) == 0
    assert "ok       API:" in capsys.readouterr().out
    assert main(["doctor", "--master-url", "http://127.0.0.1:9", *flags]) == 1
    assert "failed   API:" in capsys.readouterr().out
    assert main(["doctor", *flags]) == 2
    assert "master_url is missing" in capsys.readouterr().err
