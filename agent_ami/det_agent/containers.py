"""The containers of this agent. One thread per container runs it from start to end and reports its state."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from det_controlplane.core.agent_protocol import (
    ContainerReport,
    ContainerSpec,
    ContainerState,
    Directive,
    Failure,
)
from det_controlplane.core.json_log import log_ids
from determined.common.exit_status import AGENT_AWAY
from determined.common.otlp import trace_id_of

from det_agent.boot_spans import BootSpans
from det_agent.data_sets import NO_DATA_SETS, DataSets, NoDataSets, StoreDown
from det_agent.environment import AgentEnvironment, container_env
from det_agent.health import Health
from det_agent.log_cursor import LogCursor
from det_agent.log_limits import LogLimits
from det_agent.replicas import Replicas
from det_agent.runtime import (
    ContainerKey,
    ContainerSessions,
    Exit,
    NoRoom,
    Runtime,
    Started,
    StartFailed,
    Stream,
)
from det_agent.spool import Spool, SpoolFull
from det_agent.task_logs import TaskLine, agent_line, output_line
from det_agent.trial_reports import TrialReports

KILL_AGAIN_AFTER_S = 15.0
KILLED_EXIT_CODE = 137
_AGENT_AWAY = "the agent did not answer while the container prepared"
LAST_OUTPUT_S = 5.0  # how long the end of a container waits for the next line of its output
SPOOL_FULL_S = 1.0  # the interval of attempts to store a line on a full disk
STREAMS: tuple[Stream, ...] = ("stdout", "stderr")

_log = logging.getLogger(__name__)


@dataclass
class _Container:
    key: ContainerKey
    report: ContainerReport
    spec: ContainerSpec | None = None
    started: Started | None = None
    kill_asked: threading.Event = field(default_factory=threading.Event)
    exited: threading.Event = field(default_factory=threading.Event)
    killed_at: float = -KILL_AGAIN_AFTER_S
    last_output: float = 0.0


@dataclass(frozen=True)
class ContainerDependencies:
    """The parts of the agent that containers use."""

    runtime: Runtime
    sessions: ContainerSessions
    logs: Spool
    limits: LogLimits
    reports: TrialReports
    cursors: Path
    address: str
    environment: Callable[[ContainerSpec], AgentEnvironment]
    health: Health
    flush_logs: Callable[[], bool]
    replicas: Replicas
    data: DataSets | NoDataSets = NO_DATA_SETS
    boot: BootSpans = field(default_factory=lambda: BootSpans(""))
    keep_exited: bool = False


class Containers:
    def __init__(
        self, agent: ContainerDependencies, agent_id: str, on_change: Callable[[], None]
    ) -> None:
        self._agent = agent
        self._agent_id = agent_id
        self._on_change = on_change
        self._lock = threading.RLock()
        self._ended = threading.Condition(self._lock)
        self._all: dict[str, _Container] = {}

    def reports(self) -> dict[str, ContainerReport]:
        with self._lock:
            return {c.key.id: c.report for c in self._all.values()}

    def start(self, spec: ContainerSpec) -> None:
        key = ContainerKey.of(spec)
        container = _Container(key, ContainerReport(key.id, key.epoch, "assigned"), spec)
        if self._enter(container):
            self._in_thread(self._run_to_end, self._live, container)

    def adopt(self, started: Started) -> None:
        """Manage a container that an earlier process of this agent started."""
        key = started.key
        report = self._running(ContainerReport(key.id, key.epoch, "running"), started)
        container = _Container(key, report, started=started)
        if self._enter(container):
            _log.info("re-adopted container %s of allocation %s", key.id, key.allocation_id)
            self._in_thread(self._run_to_end, self._watch, container)

    def refuse(self, directive: Directive) -> None:
        report = ContainerReport(
            directive.id,
            directive.epoch,
            "terminated",
            failure="aborted",
            message="the container was killed before it started",
        )
        key = ContainerKey(directive.id, directive.epoch, directive.allocation_id, "")
        self._enter(_Container(key, report))

    def kill(self, container_id: str, reason: str) -> None:
        container = self._all.get(container_id)
        if container is None or time.monotonic() - container.killed_at < KILL_AGAIN_AFTER_S:
            return
        container.killed_at = time.monotonic()
        container.kill_asked.set()
        if container.started is not None:
            _log.info("killing container %s: %s", container_id, reason)
            self._in_thread(self._agent.runtime.kill, container.key)

    def kill_all(self, reason: str) -> None:
        for report in self.reports().values():
            if report.state != "terminated":
                self.kill(report.id, reason)

    def live(self) -> bool:
        """Return whether any container has not ended."""
        return any(report.state != "terminated" for report in self.reports().values())

    def running_tasks(self) -> set[str]:
        """Return the tasks with a container that has not ended."""
        with self._lock:
            return {c.key.task_id for c in self._all.values() if c.report.state != "terminated"}

    def running(self) -> list[Started]:
        """Return the started containers that have not ended."""
        with self._lock:
            return [
                c.started
                for c in self._all.values()
                if c.started is not None and not c.exited.is_set()
            ]

    def has_unreported_ends(self) -> bool:
        """Return whether the control plane has not acknowledged the end of a container."""
        with self._lock:
            return any(c.report.state == "terminated" for c in self._all.values())

    def wait_until_ended(self, timeout_s: float) -> bool:
        """Return whether all containers ended in time."""
        with self._ended:
            return self._ended.wait_for(
                lambda: all(c.report.state == "terminated" for c in self._all.values()), timeout_s
            )

    def forget(self, container_id: str) -> None:
        with self._lock:
            container = self._all.pop(container_id, None)
        if container is not None and container.started is not None and not self._agent.keep_exited:
            self._in_thread(self._clean_up, container)

    def addresses(self, container_id: str, port: int) -> Sequence[tuple[str, int]]:
        """Return the addresses of a proxied port of a running container, or () if there is no such port."""
        with self._lock:
            container = self._all.get(container_id)
            running = container is not None and container.report.state == "running"
            started = container.started if container is not None and running else None
        return () if started is None else self._agent.runtime.addresses(started, port)

    def _enter(self, container: _Container) -> bool:
        with self._lock:
            if container.key.id in self._all:
                return False
            self._all[container.key.id] = container
        if container.report.state != "terminated":
            self._agent.sessions.open(container.key)
        self._on_change()
        return True

    def _run_to_end(self, life: Callable[[_Container], None], container: _Container) -> None:
        """Run a container to its end. Every error is reported as an exit, so that the slots become free."""
        key, trace = container.key, container.spec and container.spec.trace
        ids = {"container_id": key.id, "allocation_id": key.allocation_id, "task_id": key.task_id}
        with log_ids(**ids, trace_id=trace and trace_id_of(trace.traceparent)):
            self._run_life(life, container)

    def _run_life(self, life: Callable[[_Container], None], container: _Container) -> None:
        try:
            life(container)
        except Exception as e:
            _log.exception("container %s is given up", container.key.id)
            if container.report.state != "terminated":
                self._give_up(container, f"agent error: {e}")

    def _give_up(self, container: _Container, message: str) -> None:
        try:
            self._agent.runtime.kill(container.key)
            if container.started is None:
                self._agent.runtime.remove(container.key)
        except Exception:
            _log.exception("container %s may still run", container.key.id)
        self._fail(container, "agent_error", message)

    def _fail(
        self, container: _Container, failure: Failure, message: str, *, is_own: bool = True
    ) -> None:
        """End a container that could not start. `is_own` says whether this machine may be the cause."""
        if failure == "agent_error" and is_own:
            self._agent.health.container_failed_to_start(message)
        try:
            self._log_line(container, message, level="ERROR")
        finally:
            self._end(container, _failed_report(container.report, failure, message))

    def _live(self, container: _Container) -> None:
        try:
            assert container.spec is not None
            self._begin(container, container.spec)
        except StartFailed as e:
            if isinstance(e, NoRoom):
                self._agent.health.leave_service(str(e))
            self._fail(container, e.failure, str(e), is_own=not isinstance(e, StoreDown))
        else:
            self._watch(container)

    def _begin(self, container: _Container, spec: ContainerSpec) -> None:
        self._agent.boot.send(spec)
        self._move(container, "pulling")
        self._agent.runtime.prepare(
            spec, lambda text: self._log_line(container, text), container.kill_asked.is_set
        )
        if container.kill_asked.is_set():
            raise StartFailed("aborted", "the container was killed before it started")
        self._move(container, "starting")
        spec = self._agent.replicas.provide(spec)
        data = self._agent.data.prepare(
            container.key,
            spec.data_sets,
            lambda text: self._log_line(container, text),
            container.kill_asked.is_set,
        )
        env = container_env(spec, self._agent.environment(spec), data.folders)
        spec = replace(spec, mounts=(*spec.mounts, *data.mounts))
        started = self._agent.runtime.start(spec, env)
        container.started = started
        self._agent.health.container_started()
        if container.kill_asked.is_set():
            self._agent.runtime.kill(container.key)
        self._log_line(container, f"Started {spec.name or 'container'} on agent {self._agent_id}")
        report = replace(container.report, data_s=data.seconds)
        self._set(container, self._running(report, started))

    def _watch(self, container: _Container) -> None:
        started = container.started
        assert started is not None
        readers = [
            self._in_thread(self._ship_output, container, started, stream) for stream in STREAMS
        ]
        ended = self._agent.runtime.wait(started)
        self._await_output(container, readers)
        # A failure of the GPU is not the task's fault, and the agent leaves service. A killed container is not checked,
        # because the tool may take minutes with a broken driver.
        failed = ended.exit_code and not container.kill_asked.is_set()
        broken = self._agent.health.look() if failed else ""
        self._end(container, _exit_report(container, ended, broken))

    def _await_output(self, container: _Container, readers: Sequence[threading.Thread]) -> None:
        """Wait until all output is stored. The end of the container deletes its files. Abandon readers that hang."""
        ended = time.monotonic()
        for reader in readers:
            while reader.is_alive():
                quiet_since = max(ended, container.last_output)
                remaining_s = quiet_since + LAST_OUTPUT_S - time.monotonic()
                if remaining_s <= 0:
                    break
                reader.join(remaining_s)

    def _ship_output(self, container: _Container, started: Started, stream: Stream) -> None:
        key = container.key
        with LogCursor.at(self._cursor(key, stream)) as cursor:
            for line in self._agent.runtime.output(started, stream, cursor.read()):
                entry = output_line(key, self._agent_id, line.text, stream, line.timestamp)
                while not self._is_stored(key, entry):
                    if self._agent.logs.has_unsent():
                        # Lines that are sent make room, so the end of the container waits for this line.
                        container.last_output = time.monotonic()
                    if container.exited.wait(SPOOL_FULL_S):
                        _log.warning("container %s ends without its last output: no room", key.id)
                        return
                cursor.write(line.cursor)
                container.last_output = time.monotonic()

    def _is_stored(self, key: ContainerKey, line: TaskLine) -> bool:
        try:
            self._agent.limits.append(key, [line])
        except SpoolFull:
            return False
        return True

    def _end(self, container: _Container, report: ContainerReport) -> None:
        container.exited.set()
        # The end of a trial depends on its reports, and its log should be complete.
        try:
            self._agent.reports.finish(container.key)
            try:
                self._agent.limits.ended(container.key)
            except SpoolFull as e:
                _log.warning(
                    "the log of container %s does not count its dropped lines: %s",
                    container.key.id,
                    e,
                )
            if not self._agent.flush_logs():
                _log.warning(
                    "container %s ends before its last log lines are sent", container.key.id
                )
        except Exception:
            _log.exception("the last words of container %s may be lost", container.key.id)
        self._agent.sessions.close(container.key.id)
        try:
            self._agent.data.release(container.key)
        except Exception:  # the slots must become free
            _log.exception("the data of container %s stays in use", container.key.id)
        self._set(container, report)

    def _clean_up(self, container: _Container) -> None:
        self._agent.runtime.remove(container.key)
        for stream in STREAMS:
            self._cursor(container.key, stream).unlink(missing_ok=True)

    def _running(self, report: ContainerReport, started: Started) -> ContainerReport:
        return report.moved(
            "running",
            address=self._agent.address,
            host_ports={str(port): host_port for port, host_port in started.host_ports.items()},
            runtime_id=started.runtime_id,
        )

    def _move(self, container: _Container, state: ContainerState) -> None:
        self._set(container, container.report.moved(state))

    def _set(self, container: _Container, report: ContainerReport) -> None:
        with self._lock:
            container.report = report
            self._ended.notify_all()
        _log.info("container %s is %s", report.id, report.state)
        self._on_change()

    def _log_line(self, container: _Container, text: str, level: str = "INFO") -> None:
        with contextlib.suppress(SpoolFull):
            line = agent_line(container.key, self._agent_id, text, level)
            self._agent.logs.append([line])

    def _cursor(self, key: ContainerKey, stream: Stream) -> Path:
        return self._agent.cursors / f"{key.place}.{stream}"

    def _in_thread(self, target: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, daemon=True)
        thread.start()
        return thread


def _failed_report(report: ContainerReport, failure: Failure, message: str) -> ContainerReport:
    return report.moved("terminated", failure=failure, message=message)


def _exit_report(container: _Container, ended: Exit, broken: str = "") -> ContainerReport:
    """Return the final report. `broken` is the machine's fault, if any, which then caused the failure."""
    report = container.report.moved(
        "terminated", exit_code=ended.exit_code, message=ended.message or None
    )
    if ended.exit_code is None:
        return report.moved("terminated", failure="agent_error")
    if ended.exit_code == 0:
        return report
    if ended.exit_code == AGENT_AWAY:
        return report.moved("terminated", failure="agent_error", message=_AGENT_AWAY)
    if container.kill_asked.is_set() and ended.exit_code == KILLED_EXIT_CODE:
        return report.moved("terminated", failure="aborted", message="the container was killed")
    message = f"container failed with non-zero exit code: {ended.exit_code}"
    if ended.reason and not broken:
        message = ended.reason
    elif ended.message or broken:
        message += f" ({broken or ended.message})"
    failure: Failure = "agent_error" if broken else "container_failed"
    return report.moved("terminated", failure=failure, message=message)
