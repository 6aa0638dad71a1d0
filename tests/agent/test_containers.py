"""A container ends and frees its slots despite failures in the agent."""

import errno
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from det_agent import containers as life
from det_agent.containers import ContainerDependencies, Containers
from det_agent.data_sets import PreparedData, StoreDown
from det_agent.environment import AgentEnvironment
from det_agent.health import FAILURES_IN_A_ROW, Health
from det_agent.log_limits import LogLimits
from det_agent.replicas import Replicas
from det_agent.runtime import (
    ContainerKey,
    ContainerSessions,
    Exit,
    GatewayAddress,
    NoRoom,
    OutputLine,
    Say,
    Started,
    StartFailed,
    Stream,
    Usage,
)
from det_agent.spool import Spool, SpoolFull
from det_controlplane.core.agent_protocol import ContainerReport, ContainerSpec
from determined.common.exit_status import AGENT_AWAY

from tests.support.agents import make_spec

NO_ROOM = OSError(errno.ENOSPC, "No space left on device")
BUG = RuntimeError("nobody thought of this")


@dataclass
class PlayedRuntime:
    """A runtime with containers that run until a test ends them. `errors` are raised by the named methods."""

    kind: Literal["docker", "process"] = "process"
    errors: dict[str, Exception] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    before_line: Callable[[], object] = lambda: None
    over: threading.Event = field(default_factory=threading.Event)
    killed: list[str] = field(default_factory=list)
    exit_code: int = 0

    def _do(self, name: str) -> None:
        if name in self.errors:
            raise self.errors[name]

    def is_isolated(self, network: str) -> bool:
        return False

    def host_address(self, network: str, gateway: GatewayAddress) -> str:
        return "127.0.0.1"

    def check(self, gateway: GatewayAddress) -> None:
        pass

    def prepare(self, spec: ContainerSpec, say: Say, cancelled: Any) -> None:
        self._do("prepare")

    def start(self, spec: ContainerSpec, env: Mapping[str, str]) -> Started:
        self._do("start")
        return Started(ContainerKey.of(spec), "1")

    def kill(self, key: ContainerKey) -> None:
        self.killed.append(key.id)
        self._do("kill")

    def wait(self, container: Started) -> Exit:
        self._do("wait")
        self.over.wait(60)
        return Exit(self.exit_code)

    def output(self, container: Started, stream: Stream, cursor: str) -> Iterator[OutputLine]:
        self._do("output")
        for number, text in enumerate(self.lines if stream == "stdout" else ()):
            self.before_line()
            yield OutputLine(text, "2026-11-27T10:00:00Z", str(number))

    def addresses(self, container: Started, port: int) -> Sequence[tuple[str, int]]:
        return ()

    def usage(self, started: Started) -> Usage | None:
        return None

    def adoptable(self, cluster_id: str) -> Sequence[Started]:
        return ()

    def remove_leftovers(self) -> None:
        pass

    def remove(self, key: ContainerKey) -> None:
        pass


class Bench:
    """The containers of an agent; its other parts fail where a test says so."""

    def __init__(self, folder: Path, spool: Spool) -> None:
        self.runtime, self.spool = PlayedRuntime(), spool
        self.sessions = ContainerSessions()
        self.health = Health(lambda: None, lambda: None)
        self.finish: Any = lambda key: None
        self.prepare: Any = lambda *arguments: PreparedData(seconds=1.5)
        self.release: Any = lambda key: None
        (folder / "cursors").mkdir()
        self.cursors = folder / "cursors"
        self.containers = Containers(
            ContainerDependencies(
                runtime=self.runtime,
                sessions=self.sessions,
                logs=spool,
                limits=LogLimits(spool, "agent-1", 0, 0),
                reports=SimpleNamespace(finish=lambda key: self.finish(key)),  # type: ignore[arg-type]
                cursors=self.cursors,
                address="10.0.0.7",
                environment=lambda spec: AgentEnvironment("agent-1", "process", "127.0.0.1", 1),
                health=self.health,
                flush_logs=lambda: True,
                replicas=Replicas("agent-1", folder),
                data=SimpleNamespace(  # type: ignore[arg-type]
                    prepare=lambda *arguments: self.prepare(*arguments),
                    release=lambda key: self.release(key),
                ),
            ),
            "agent-1",
            lambda: None,
        )

    def run(self) -> ContainerReport:
        """Run a container to its end, and return how that is reported."""
        spec = ContainerSpec.from_json(make_spec("true"))
        self.containers.start(spec)
        assert self.containers.wait_until_ended(60)
        assert self.sessions.owner_of([spec.session_token]) is None
        return self.containers.reports()[spec.container_id]

    def texts(self) -> str:
        batch = self.spool.next_batch()
        return b"\n".join(batch.lines).decode() if batch else ""


@pytest.fixture
def bench(tmp_path: Path, spool: Spool) -> Bench:
    return Bench(tmp_path, spool)


def test_container_without_its_agent_is_an_agent_error(bench: Bench) -> None:
    bench.runtime.exit_code = AGENT_AWAY
    bench.runtime.over.set()
    report = bench.run()
    assert (report.failure, report.exit_code) == ("agent_error", AGENT_AWAY)
    assert report.message == "the agent did not answer while the container prepared"


@pytest.mark.parametrize("error", [NO_ROOM, BUG, StartFailed("agent_error", "no engine")])
@pytest.mark.parametrize("step", ["prepare", "start"])
def test_failed_starts_are_reported_logged_and_counted(
    bench: Bench, step: str, error: Exception
) -> None:
    bench.runtime.errors[step] = error
    for _ in range(FAILURES_IN_A_ROW):
        report = bench.run()
        assert report.failure == "agent_error"
        assert str(error) in (report.message or "")
    assert str(error) in bench.health.out_of_service
    assert str(error) in bench.texts()


def test_full_disk_during_a_pull_takes_the_agent_out_of_service(
    bench: Bench,
) -> None:
    bench.runtime.errors["prepare"] = NoRoom("image_pull", "no space left on device")
    assert bench.run().failure == "image_pull"
    assert bench.health.out_of_service == "no space left on device"


def test_store_that_is_down_is_no_fault_of_the_machine(bench: Bench) -> None:
    def fail(*_: object) -> None:
        raise StoreDown("agent_error", "the store answers 503")

    bench.prepare = fail
    for _ in range(FAILURES_IN_A_ROW):
        assert bench.run().message == "the store answers 503"
    assert bench.health.out_of_service == ""


def test_time_of_the_data_is_reported(bench: Bench) -> None:
    bench.runtime.over.set()
    assert bench.run().data_s == 1.5


def test_failing_release_of_data_does_not_prevent_the_end_of_a_container(bench: Bench) -> None:
    def fail(key: ContainerKey) -> None:
        raise NO_ROOM

    bench.release = fail
    bench.runtime.over.set()
    assert bench.run().exit_code == 0


@pytest.mark.parametrize("error", [NO_ROOM, BUG])
def test_container_is_killed_if_waiting_for_it_fails(bench: Bench, error: Exception) -> None:
    bench.runtime.errors.update(wait=error, kill=BUG)
    report = bench.run()
    assert report.failure == "agent_error"
    assert str(error) in (report.message or "")
    assert bench.runtime.killed == [report.id]


@pytest.mark.parametrize("error", [SpoolFull("no room"), NO_ROOM, BUG])
@pytest.mark.parametrize("cause", [StartFailed("container_failed", "no such command"), BUG])
def test_failing_log_does_not_prevent_the_end_of_a_container(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception, cause: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(bench.spool, "append", refuse)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    bench.runtime.errors["start"] = cause
    report = bench.run()
    assert str(cause) in (report.message or "")


def test_failing_report_delivery_does_not_prevent_the_end_of_a_container(bench: Bench) -> None:
    def fail(key: ContainerKey) -> None:
        raise NO_ROOM

    bench.finish = fail
    bench.runtime.over.set()
    assert bench.run().exit_code == 0


def test_container_output_waits_for_room_in_the_spool(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "SPOOL_FULL_S", 0.001)
    append, tries = bench.spool.append, []

    def full_at_first(lines: Sequence[bytes], key: str = "") -> None:
        tries.append(lines)
        if len(tries) < 5:
            raise SpoolFull("no room")
        append(lines, key)
        if b"a second line" in lines[0]:
            bench.runtime.over.set()

    monkeypatch.setattr(bench.spool, "append", full_at_first)
    bench.runtime.lines = ["a line", "a second line"]
    assert bench.run().exit_code == 0
    texts = bench.texts()
    assert texts.count("a line") == texts.count("a second line") == 1


def test_the_end_waits_for_room_in_the_log(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control plane is silent for longer than the end waits for output, and takes the unsent lines then."""
    now, tries = [0.0], []
    monkeypatch.setattr(life, "SPOOL_FULL_S", 0.001)
    monkeypatch.setattr(life, "time", SimpleNamespace(monotonic=lambda: now[0]))
    append = bench.spool.append
    append([b'"an unsent line"'])

    def full_for_long(lines: Sequence[bytes], key: str = "") -> None:
        tries.append(lines)
        if len(tries) < 10:
            now[0] += life.LAST_OUTPUT_S / 2
            raise SpoolFull("no room")
        append(lines, key)

    monkeypatch.setattr(bench.spool, "append", full_for_long)
    bench.runtime.lines = ["the last line"]
    bench.runtime.over.set()
    assert bench.run().exit_code == 0
    assert "the last line" in bench.texts()


def test_the_agent_logs_that_output_is_lost_on_a_full_disk(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(life, "SPOOL_FULL_S", 0.001)
    monkeypatch.setattr(life, "LAST_OUTPUT_S", 0.05)
    monkeypatch.setattr(bench.spool, "append", full_disk)
    bench.runtime.lines = ["the last line"]
    bench.runtime.over.set()
    report = bench.run()
    assert report.exit_code == 0
    for thread in threading.enumerate():
        if "_ship_output" in thread.name:
            thread.join(60)
    assert f"container {report.id} ends without its last output" in caplog.text


def full_disk(*_: object) -> None:
    raise SpoolFull("the agent's disk takes no more logs")


def test_output_is_read_if_its_cursor_cannot_be_stored(bench: Bench) -> None:
    bench.cursors.rmdir()
    bench.runtime.lines = ["a line", "a second line"]
    bench.runtime.over.set()
    assert bench.run().exit_code == 0
    assert "a second line" in bench.texts()


def test_container_end_waits_for_slow_output(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "LAST_OUTPUT_S", 0.5)
    # Each line comes in time, all of them together do not.
    bench.runtime.before_line = lambda: threading.Event().wait(0.1)
    bench.runtime.lines = [f"line {number} of 15" for number in range(1, 16)]
    bench.runtime.over.set()
    assert bench.run().exit_code == 0
    assert "line 15 of 15" in bench.texts()


def test_container_end_does_not_wait_for_hanging_output(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "LAST_OUTPUT_S", 0.05)
    hangs = threading.Event()
    bench.runtime.before_line = lambda: hangs.wait(60)
    bench.runtime.lines = ["a late line"]
    bench.runtime.over.set()
    assert bench.run().exit_code == 0
    assert "a late line" not in bench.texts()
    hangs.set()
    for reader in (t for t in threading.enumerate() if "_ship_output" in t.name):
        reader.join(60)  # before the spool is closed
