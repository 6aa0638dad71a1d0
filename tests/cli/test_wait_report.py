"""Commands that wait for a job print why it waits: after five seconds, and when the reason changes."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from det_cli.actions import wait_report
from det_cli.actions.wait_report import WaitReport
from determined.common import log_stream
from determined.common.http import Session

from tests.cli.conftest import Det
from tests.support.fake_api import RecordedRequest, Refusal
from tests.support.fake_cluster import FakeCluster

QUEUED = {"state": "QUEUED", "code": "NO_FREE_SLOTS", "sentence": "needs 8 slots; none is free"}
BEHIND = {"state": "QUEUED", "code": "FAIR_SHARE", "sentence": "its share is used"}
RUNS = {"state": "RUNNING", "code": "RUNS", "sentence": "runs on a1"}
TASK = "c77f00fa-adf7-4bfa-ba98-546a559bfe9f"


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []
    monkeypatch.setattr(wait_report, "say", texts.append)
    return texts


@pytest.fixture
def session(cluster: FakeCluster) -> Iterator[Session]:
    with closing(Session(cluster.url, retries=0)) as session:
        yield session


def printed_at(
    cluster: FakeCluster, session: Session, answers: list[tuple[float, Any]], texts: list[str]
) -> list[tuple[float, str]]:
    """Check at each time with the reason of that time. Return the printed messages with their times."""
    clock = iter([at for at, _ in answers])
    report = WaitReport(session, "trial", 7, now=lambda: next(clock))
    out = []
    for at, reason in answers:
        cluster.on("GET", "/api/v1/why/trial/7", {"reasons": [reason] if reason else []})
        report.check()
        out += [(at, text) for text in texts]
        texts.clear()
    return out


def test_reason_is_printed_after_five_seconds_and_when_it_changes(
    cluster: FakeCluster, session: Session, messages: list[str]
) -> None:
    times = [(0.0, QUEUED), (4.0, QUEUED), (6.0, QUEUED), (9.0, QUEUED), (12.0, BEHIND)]
    assert printed_at(cluster, session, times, messages) == [
        (6.0, "It waits: needs 8 slots; none is free."),
        (12.0, "It waits: its share is used."),
    ]


def test_short_waits_and_running_jobs_print_no_reason(
    cluster: FakeCluster, session: Session, messages: list[str]
) -> None:
    times = [(0.0, QUEUED), (3.0, RUNS), (30.0, QUEUED), (34.0, QUEUED), (36.0, None)]
    assert printed_at(cluster, session, times, messages) == []


def test_reason_that_cannot_be_read_is_ignored(
    cluster: FakeCluster, session: Session, messages: list[str]
) -> None:
    def refuse(_: RecordedRequest) -> Any:
        raise Refusal(404, "no such path")

    cluster.on("GET", "/api/v1/why/trial/7", refuse)
    WaitReport(session, "trial", 7, now=lambda: 9.0).check()
    assert messages == []


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_PATIENCE_S", "_QUEUED_POLL_S", "_THREAD_POLL_S"):
        monkeypatch.setattr(wait_report, name, 0.0)
    monkeypatch.setattr(log_stream, "_REOPEN_AFTER_S", 0.0)


@pytest.mark.usefixtures("impatient")
def test_command_run_prints_why_its_task_waits(cluster: FakeCluster, det: Det) -> None:
    why = f"/api/v1/why/task/{TASK}"
    cluster.on("GET", why, {"reasons": [QUEUED]})
    cluster.on("POST", "/api/v1/commands", {"command": {"id": TASK}, "config": {}})

    def task(_: RecordedRequest) -> Any:
        ended = len(cluster.sent("GET", why)) > 1
        allocation = {"statusCode": 0, "exitKind": "clean"}
        return {"task": {"endTime": "now" if ended else None, "allocations": [allocation]}}

    cluster.on("GET", f"/api/v1/tasks/{TASK}", task)
    result = det("command", "run", "true")
    assert result.code == 0
    assert "It waits: needs 8 slots; none is free." in result.err


@pytest.mark.usefixtures("impatient")
def test_create_with_follow_prints_why_its_trial_waits(
    cluster: FakeCluster, det: Det, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("name: a\nentrypoint: train.py\n")
    (tmp_path / "model").mkdir()
    cluster.add(4, state="STATE_COMPLETED")
    why = "/api/v1/why/trial/40"
    cluster.on("GET", why, {"reasons": [QUEUED]})
    cluster.on("GET", "/api/v1/why/experiment/4", {"reasons": []})
    cluster.on("POST", "/api/v1/experiments", {"experiment": {"id": 4}, "config": {}})

    def trial(_: RecordedRequest) -> Any:
        ended = len(cluster.sent("GET", why)) > 1
        return {"trial": {"id": 40, "state": "STATE_COMPLETED" if ended else "STATE_QUEUED"}}

    cluster.on("GET", "/api/v1/trials/40", trial)
    result = det("e", "create", config, tmp_path / "model", "-f")
    assert result.code == 0
    assert "It waits: needs 8 slots; none is free." in result.err
