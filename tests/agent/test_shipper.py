"""The way of spooled lines to the control plane."""

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from det_agent.client import ControlPlane
from det_agent.log_limits import LogLimits
from det_agent.runtime import ContainerKey
from det_agent.shipper import LogShipper
from det_agent.spool import Spool
from det_agent.task_logs import posted_lines
from det_controlplane.core.agent_protocol import JoinRequest
from determined.common.http import Session

from tests.support.fake_controlplane import JOIN_TOKEN, FakeControlPlane


@pytest.fixture
def shipper(plane: FakeControlPlane, spool: Spool) -> Iterator[LogShipper]:
    control_plane = ControlPlane(Session(plane.url, retries=0))
    control_plane.join(
        JoinRequest("agent-1", "key", "i", proof={"kind": "bootstrap_token", "token": JOIN_TOKEN})
    )
    running = LogShipper(spool, control_plane)
    running.start()
    yield running
    running.stop(timeout_s=0)


def numbered(count: int) -> list[bytes]:
    return [json.dumps({"task_id": "t", "log": str(i)}).encode() for i in range(count)]


def test_stop_ends_an_idle_shipper(spool: Spool, shipper: LogShipper) -> None:
    shipper.stop(timeout_s=60)
    assert "log-shipper" not in {thread.name for thread in threading.enumerate()}


def test_lines_arrive_in_order_in_batches_of_at_most_a_thousand(
    plane: FakeControlPlane, spool: Spool, shipper: LogShipper
) -> None:
    spool.append(numbered(2500))
    assert shipper.flush(timeout_s=60)
    assert plane.texts() == [str(i) for i in range(2500)]
    assert sorted(len(batch) for batch in plane.batches.values()) == [500, 1000, 1000]


def test_lines_arrive_with_their_matching_patterns(
    plane: FakeControlPlane, spool: Spool, shipper: LogShipper
) -> None:
    """The agent marks the lines that the control plane has to look at."""
    key = ContainerKey("c", 1, "t.1", "t", log_patterns=("(a+)+$", "out of .*ory", "never"))
    texts = ["a" * 5000 + "b", *(str(n) for n in range(5000)), "out of memory\n"]
    body = json.dumps({"logs": [{"log": text} for text in texts]}).encode()
    LogLimits(spool, "agent-1", 0, 0).append(key, posted_lines(body, key, "agent-1"))
    assert shipper.flush(timeout_s=60)
    assert plane.texts() == texts
    assert [line["matched"] for line in plane.logs() if "matched" in line] == [["out of .*ory"]]
    assert plane.matched == {True}


def test_lost_response_does_not_store_lines_twice(
    plane: FakeControlPlane, spool: Spool, shipper: LogShipper
) -> None:
    plane.lost_answers = 2
    spool.append(numbered(3))
    assert shipper.flush(timeout_s=60)
    assert plane.texts() == ["0", "1", "2"]


def test_outage_delays_lines_and_is_logged_once(
    plane: FakeControlPlane,
    spool: Spool,
    shipper: LogShipper,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("det_agent.shipper.LONGEST_BACKOFF_S", 0.01)
    plane.outage = True
    spool.append(numbered(3))
    assert not shipper.flush(timeout_s=1.0)
    plane.outage = False
    assert shipper.flush(timeout_s=60)
    assert plane.texts() == ["0", "1", "2"]
    (message,) = (r.getMessage() for r in caplog.records if r.name == "det_agent.shipper")
    assert message.startswith("log lines wait in the spool: ")


def test_flush_does_not_wait_for_a_long_retry_pause(
    plane: FakeControlPlane,
    spool: Spool,
    shipper: LogShipper,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("det_agent.shipper.pauses", lambda *_: itertools.repeat(3600.0))
    plane.outage = True
    spool.append(numbered(3))
    plane.until(lambda: any(r.name == "det_agent.shipper" for r in caplog.records))
    plane.outage = False
    assert shipper.flush(timeout_s=30)
    assert plane.texts() == ["0", "1", "2"]


def test_disk_error_delays_lines_and_is_logged_once(
    plane: FakeControlPlane,
    spool: Spool,
    shipper: LogShipper,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("det_agent.shipper.DISK_PAUSE_S", 0.01)
    (tmp_path / "position.json").unlink()
    (tmp_path / "position.json").mkdir()
    spool.append(numbered(3))
    for _ in range(2):
        assert not shipper.flush(timeout_s=0.2)
    (tmp_path / "position.json").rmdir()
    assert shipper.flush(timeout_s=60)
    assert plane.texts() == ["0", "1", "2"]
    (message,) = (r.getMessage() for r in caplog.records if r.name == "det_agent.shipper")
    assert message.startswith("log lines wait, the spool cannot be read or written: ")


def test_permanently_rejected_lines_do_not_block_others(
    plane: FakeControlPlane, spool: Spool, shipper: LogShipper, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = plane.store_logs

    def picky(body: dict[str, Any]) -> tuple[int, Any]:
        return (400, {"message": "no"}) if body["logs"][0]["log"] == "0" else store(body)

    monkeypatch.setattr(plane, "store_logs", picky)
    spool.append(numbered(1))
    assert shipper.flush(timeout_s=60)
    spool.append([b'{"task_id": "t", "log": "after"}'])
    assert shipper.flush(timeout_s=60)
    assert plane.texts() == ["after"]


def test_lines_are_collected_until_a_user_follows_the_log(
    plane: FakeControlPlane, spool: Spool, shipper: LogShipper
) -> None:
    spool.append(numbered(1))
    assert shipper.flush(timeout_s=60)
    shipper.pace(60.0)
    for _ in range(50):
        spool.append(numbered(1))
    shipper.pace(60.0)
    assert len(plane.batches) == 1, "the lines wait for more lines"
    shipper.pace(1.0)
    plane.until(lambda: len(plane.texts()) == 51)
    assert len(plane.batches) == 2, "fifty lines were one request"
