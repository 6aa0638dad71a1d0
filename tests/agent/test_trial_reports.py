"""Reports of trials reach the control plane once, in order, and before reports that depend on them."""

import errno
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from det_agent.report_delivery import Answer, ReportDelivery, TrialReport
from det_agent.runtime import ContainerKey
from det_agent.trial_reports import QueueFull, TrialReports, is_trial_report
from determined.common.connections import Connections

from tests.agent.conftest import StartAgent
from tests.support.agents import make_spec
from tests.support.fake_controlplane import FakeControlPlane

KEY = ContainerKey("c-1", 1, "alloc-1", "task-1", "secret-1")
OTHER = ContainerKey("c-2", 1, "alloc-2", "task-2", "secret-2")
METRICS, CHECKPOINTS = "/api/v1/trials/7/metrics", "/api/v1/checkpoints"


@dataclass
class Agent:
    """The reports of an agent. `restart` returns the state that its next process finds."""

    url: str
    folder: Path
    token: str = ""  # with which it delivers metrics of several containers together
    refusals: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.reports = TrialReports(
            self.folder,
            ReportDelivery(Connections(self.url), lambda: self.token),
            lambda key, text: self.refusals.append((key.id, text)),
        )
        self.reports.start()

    def end(self) -> None:
        """Stop delivering, as at the end of a process: requests under way have arrived or never will."""
        self.reports.stop()
        for thread in threading.enumerate():
            if thread.name == "trial-reports":
                thread.join(timeout=60)

    def post(self, target: str, body: bytes, key: ContainerKey = KEY) -> Answer | None:
        return self.reports.put(key, TrialReport(target, {"Authorization": "Bearer s"}, body))

    def drain(self, key: ContainerKey = KEY) -> None:
        assert self.reports.wait_until_delivered(key, self.reports.last_of(key), timeout_s=60)


@pytest.fixture
def agent(plane: FakeControlPlane, tmp_path: Path) -> Iterator[Agent]:
    running = Agent(plane.url, tmp_path)
    yield running
    running.reports.stop()


def sent(plane: FakeControlPlane) -> list[tuple[str, bytes]]:
    return [(path, body) for _, path, _, body in plane.forwarded]


def keys(plane: FakeControlPlane) -> list[str]:
    return [headers["Idempotency-Key"] for _, _, headers, _ in plane.forwarded]


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", CHECKPOINTS, True),
        ("POST", METRICS, True),
        ("POST", "/api/v1/trials/7/early_exit", True),
        ("POST", "/api/v1/trials/7/runner/metadata", True),
        ("PATCH", CHECKPOINTS, False),
        ("GET", CHECKPOINTS, False),
        ("POST", "/api/v1/trials/7/searcher/completed_operation", False),
        ("POST", "/api/v1/checkpoints/uuid/metadata", False),
    ],
)
def test_reports_are_posts_with_an_empty_response(method: str, path: str, expected: bool) -> None:
    assert is_trial_report(method, path) == expected


def test_container_gets_the_response_of_the_control_plane(
    agent: Agent, plane: FakeControlPlane
) -> None:
    plane.answer_to = lambda method, path, body: (400, {"message": "no such group"})
    answer = agent.post(METRICS, b"{}")
    assert answer is not None
    assert (answer.status, json.loads(answer.body)) == (400, {"message": "no such group"})
    assert agent.refusals == []


def test_reports_are_queued_in_an_outage_and_delivered_in_order(
    agent: Agent, plane: FakeControlPlane
) -> None:
    plane.outage = True
    reports = [(METRICS, b"1"), (CHECKPOINTS, b"2"), (METRICS, b"3")]
    assert [agent.post(*report) for report in reports] == [None] * 3
    plane.outage = False
    agent.drain()
    assert sent(plane) == reports


def test_silent_control_plane_delays_a_report_only_briefly(
    agent: Agent, plane: FakeControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("det_agent.trial_reports.ANSWER_WAIT_S", 0.05)
    proceed = threading.Event()

    def late(method: str, path: str, body: bytes) -> tuple[int, Any]:
        proceed.wait(60)
        return 200, {}

    plane.answer_to = late
    assert agent.post(METRICS, b"1") is None
    monkeypatch.setattr("det_agent.trial_reports.ANSWER_WAIT_S", 3600.0)
    assert agent.post(METRICS, b"2") is None
    proceed.set()
    agent.drain()
    once = dict(zip(keys(plane), sent(plane), strict=True))
    assert list(once.values()) == [(METRICS, b"1"), (METRICS, b"2")]


def test_reports_of_one_container_do_not_delay_another(
    agent: Agent, plane: FakeControlPlane
) -> None:
    plane.answer_to = lambda method, path, body: (503 if body == b"stuck" else 200, {})
    assert agent.post(METRICS, b"stuck") is None
    answer = agent.post(METRICS, b"other", OTHER)
    assert answer is not None
    assert answer.status == 200


def test_report_with_a_lost_response_is_repeated_with_the_same_key(
    agent: Agent, plane: FakeControlPlane
) -> None:
    plane.lost_forwarded_answers = 1
    agent.post(CHECKPOINTS, b"1")
    agent.drain()
    agent.post(CHECKPOINTS, b"2")
    assert sent(plane) == [(CHECKPOINTS, b"1"), (CHECKPOINTS, b"1"), (CHECKPOINTS, b"2")]
    first, second_key, other = keys(plane)
    assert first == second_key != other


def test_undelivered_reports_are_delivered_after_a_restart(
    agent: Agent, plane: FakeControlPlane
) -> None:
    plane.outage = True
    agent.post(METRICS, b"1")
    agent.post(CHECKPOINTS, b"2", OTHER)
    agent.post(CHECKPOINTS, b"3")
    agent.end()
    plane.outage = False
    agent.restart()
    agent.post(METRICS, b"4")
    agent.drain()
    agent.drain(OTHER)
    assert [body for _, body in sent(plane) if body != b"2"] == [b"1", b"3", b"4"]
    assert (CHECKPOINTS, b"2") in sent(plane)


def test_interrupted_delivery_is_repeated_with_the_same_key(
    agent: Agent, plane: FakeControlPlane
) -> None:
    plane.lost_forwarded_answers = 1000
    agent.post(CHECKPOINTS, b"1")
    plane.until(lambda: len(plane.forwarded) >= 1)
    agent.end()
    plane.lost_forwarded_answers = 0
    agent.restart()
    agent.drain()
    assert len(plane.forwarded) >= 2
    assert len(set(keys(plane))) == 1


def test_queues_of_several_containers_are_delivered_in_order_after_a_restart(
    agent: Agent, plane: FakeControlPlane
) -> None:
    plane.outage = True
    remaining_bodies = {
        key: [b"%d of %s" % (n, key.id.encode()) for n in range(4)] for key in (KEY, OTHER)
    }
    for key, bodies in remaining_bodies.items():
        for body in bodies:
            agent.post(METRICS, body, key)
    agent.end()
    plane.outage, plane.lost_forwarded_answers, agent.token = False, 3, plane.admit()
    agent.restart()
    agent.drain(KEY)
    agent.drain(OTHER)
    once = {headers["Idempotency-Key"]: body for _, _, headers, body in plane.forwarded}
    for key, bodies in remaining_bodies.items():
        assert [body for body in once.values() if body.endswith(key.id.encode())] == bodies
    assert len(plane.forwarded) > len(once), "answers were lost"


def test_rejection_of_a_queued_report_is_logged_and_does_not_block_others(
    agent: Agent, plane: FakeControlPlane
) -> None:
    plane.outage = True
    agent.post(CHECKPOINTS, b"bad")
    agent.post(CHECKPOINTS, b"good")
    plane.answer_to = lambda method, path, body: (
        (404, {"message": "task 'x' not found"}) if body == b"bad" else (200, {})
    )
    plane.outage = False
    agent.drain()
    ((container, text),) = agent.refusals
    assert container == "c-1"
    assert CHECKPOINTS in text
    assert "task 'x' not found" in text
    assert sent(plane)[-1] == (CHECKPOINTS, b"good")


def test_container_end_waits_for_its_reports_and_removes_their_files(
    agent: Agent, plane: FakeControlPlane
) -> None:
    plane.outage = True
    agent.post(CHECKPOINTS, b"1")
    ended = threading.Event()

    def end() -> None:
        agent.reports.finish(KEY)
        ended.set()

    ending = threading.Thread(target=end)
    ending.start()
    assert not ended.wait(0.05)
    plane.outage = False
    ending.join(60)
    assert sent(plane) == [(CHECKPOINTS, b"1")]
    assert list(agent.folder.iterdir()) == []


def test_full_queue_rejects_reports(
    agent: Agent, plane: FakeControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("det_agent.trial_reports.MAX_QUEUE_BYTES", 1000)
    plane.outage = True
    agent.post(METRICS, b"x" * 600)
    with pytest.raises(QueueFull):
        agent.post(METRICS, b"x" * 600)
    plane.outage = False
    agent.drain()
    agent.post(METRICS, b"x" * 600)


def test_unwritable_disk_counts_as_a_full_queue(agent: Agent, plane: FakeControlPlane) -> None:
    (agent.folder / KEY.place).touch()
    with pytest.raises(QueueFull):
        agent.post(METRICS, b"1")
    (agent.folder / KEY.place).unlink()
    assert agent.post(METRICS, b"2") is not None
    assert sent(plane) == [(METRICS, b"2")]


def damage(path: Path, damage_kind: str) -> None:
    path.unlink()
    if damage_kind == "empty":
        path.write_bytes(bytes(100))
    elif damage_kind == "replaced":
        path.mkdir()


@pytest.mark.parametrize("how", ["deleted", "empty", "replaced"])
def test_damaged_report_is_logged_and_does_not_block_others(
    agent: Agent, plane: FakeControlPlane, how: str
) -> None:
    plane.outage = True
    for body in (b"1", b"2", b"3"):
        agent.post(METRICS, body)
    first, second, _ = sorted((agent.folder / KEY.place).iterdir())
    damage(second, how)
    plane.outage = False
    agent.reports.finish(KEY)
    assert [body for _, body in sent(plane)] == [b"1", b"3"]
    ((container, text),) = agent.refusals
    assert container == KEY.id
    assert text.startswith("A report that was kept during an outage is lost: ")
    assert list(agent.folder.iterdir()) == []
    assert not first.exists()


@pytest.mark.parametrize("how", ["empty", "replaced"])
def test_agent_starts_with_a_damaged_report(
    agent: Agent, plane: FakeControlPlane, how: str
) -> None:
    plane.outage = True
    agent.post(METRICS, b"1")
    agent.post(METRICS, b"2")
    agent.post(METRICS, b"3", OTHER)
    agent.end()
    for key in (KEY, OTHER):
        damage(min((agent.folder / key.place).iterdir()), how)
    plane.outage = False
    agent.restart()
    agent.drain()
    assert [body for _, body in sent(plane)] == [b"2"]


def fail_next_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the agent open no file, the next time that it reads a report."""
    read = Path.read_bytes

    def fail(path: Path) -> bytes:
        if path.suffix == ".report":
            monkeypatch.undo()
            raise OSError(errno.EMFILE, "Too many open files")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", fail)


def test_temporarily_unreadable_report_is_sent_later(
    agent: Agent, plane: FakeControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.outage = True
    agent.post(METRICS, b"1")
    agent.post(METRICS, b"2")
    agent.end()
    agent.restart()
    fail_next_read(monkeypatch)
    plane.outage = False
    agent.drain()
    assert [body for _, body in sent(plane)] == [b"1", b"2"]
    assert agent.refusals == []


def test_temporarily_unreadable_reports_are_kept(
    agent: Agent, plane: FakeControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.outage = True
    agent.post(METRICS, b"1")
    agent.end()
    fail_next_read(monkeypatch)
    agent.restart()
    assert len(list((agent.folder / KEY.place).iterdir())) == 1


REPORTS_AND_ENDS = """
import json, os, urllib.request
def call(method, path, body=None):
    request = urllib.request.Request(
        os.environ["DET_MASTER"] + path, method=method, data=body,
        headers={"Authorization": "Bearer " + os.environ["DET_SESSION_TOKEN"]})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return answer.read()
while not os.path.exists(GO): pass
call("POST", "/api/v1/trials/7/metrics", b"metrics")
call("POST", "/api/v1/checkpoints", b"checkpoint")
open(DONE, "w").close()
if READS: call("GET", "/api/v1/checkpoints/uuid")
"""


def report_in_an_outage(plane: FakeControlPlane, folder: Path, *, reads: bool) -> dict[str, Any]:
    """Let a container report while the control plane is away, which it stays; return its specification."""
    go, done = folder / "go", folder / "done"
    settings = f"GO, DONE, READS = {str(go)!r}, {str(done)!r}, {reads}\n"
    spec = make_spec(["python3", "-c", settings + REPORTS_AND_ENDS])
    plane.run(spec)
    plane.outage = True
    go.touch()
    plane.until(done.exists)
    return spec


def test_container_continues_in_an_outage_and_its_reports_precede_its_requests(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    start_agent()
    spec = report_in_an_outage(plane, tmp_path, reads=True)
    assert plane.forwarded == []
    plane.outage = False
    assert plane.until_state(spec["container_id"], "terminated")["exit_code"] == 0
    assert sent(plane) == [
        (METRICS, b"metrics"),
        (CHECKPOINTS, b"checkpoint"),
        ("/api/v1/checkpoints/uuid", b""),
    ]


def test_restarted_agent_delivers_reports_before_the_end_of_their_container(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    agent = start_agent()
    spec = report_in_an_outage(plane, tmp_path, reads=False)
    agent.kill()
    states_at_delivery: list[str] = []
    delays = [503, 503]

    def answer(method: str, path: str, body: bytes) -> tuple[int, Any]:
        if delays:
            return delays.pop(), {}
        states_at_delivery.append(plane.reported[spec["container_id"]]["state"])
        return 200, {}

    plane.answer_to = answer
    plane.outage = False
    agent.restart()
    assert plane.until_state(spec["container_id"], "terminated")["exit_code"] == 0
    assert sent(plane)[-2:] == [(METRICS, b"metrics"), (CHECKPOINTS, b"checkpoint")]
    assert states_at_delivery == ["running", "running"]


def test_rejection_of_a_queued_report_reaches_the_task_log(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    start_agent()
    spec = report_in_an_outage(plane, tmp_path, reads=False)
    plane.answer_to = lambda method, path, body: (400, {"message": "steps must be a number"})
    plane.outage = False
    plane.until_state(spec["container_id"], "terminated")
    log_lines = [line for line in plane.logs() if "steps must be a number" in line["log"]]
    assert [line["level"] for line in log_lines] == ["LOG_LEVEL_ERROR"] * 2
    assert {line["task_id"] for line in log_lines} == {spec["task_id"]}
