"""Reports wait while the server is away, even if a proxy answers instead."""

import itertools
from collections.abc import Callable
from typing import cast

import pytest
from determined.common.http import Session, UntrustedMasterError
from determined.core import _outbox
from determined.core._checkpoint_registry import ClusterCheckpointRegistry
from determined.core._outbox import Outbox, ReportRefused

from tests.support.fake_master import Answer, FakeMaster, Request

METRICS = "/api/v1/trials/7/metrics"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_outbox, "PAUSE_S", 0.0)


@pytest.fixture
def outbox(master: FakeMaster) -> Outbox:
    return Outbox(Session(master.url, retries=0))


def away_for(tries: int, status: int = 503) -> Callable[[Request], Answer]:
    count = itertools.count(1)

    def decide(_request: Request) -> Answer:
        return (status, {"message": "away"}) if next(count) <= tries else (200, {})

    return decide


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_report_waits_while_server_is_away(master: FakeMaster, outbox: Outbox, status: int) -> None:
    master.on("POST", METRICS, away_for(20, status))
    outbox.put(METRICS, b"{}")
    outbox.close()
    requests = master.received("POST", METRICS)
    assert len(requests) == 21
    assert len({request.headers["Idempotency-Key"] for request in requests}) == 1


def test_checkpoint_report_waits_while_server_is_away(master: FakeMaster) -> None:
    registry = ClusterCheckpointRegistry(Session(master.url, retries=0), None, "1.task", "1.task.1")
    master.on("POST", "/api/v1/checkpoints", away_for(20))
    registry.report_completed("uuid-1", {"model.pt": 1}, {"steps_completed": 1})
    assert [request.body["uuid"] for request in master.saved()] == ["uuid-1"] * 21


def test_permanently_absent_server_is_reported_at_the_end(
    master: FakeMaster, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_outbox, "GIVE_UP_AFTER_S", 0.0)
    master.on("POST", METRICS, (503, {"message": "away for good"}))
    outbox.put(METRICS, b"{}")
    with pytest.raises(ReportRefused, match="away for good"):
        outbox.close()


def test_untrusted_server_is_not_retried_in_a_busy_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Untrusting:
        tries = 0

        def post(self, *_: object, **__: object) -> None:
            self.tries += 1
            raise UntrustedMasterError("its certificate has expired")

    delays: list[float] = []
    monkeypatch.setattr(_outbox, "PAUSE_S", 5.0)
    monkeypatch.setattr(_outbox, "GIVE_UP_AFTER_S", 0.05)
    monkeypatch.setattr("time.sleep", delays.append)
    session = Untrusting()
    with pytest.raises(UntrustedMasterError):
        _outbox.deliver(cast("Session", session), METRICS, b"{}")
    assert delays == [5.0] * (session.tries - 1)


def test_rejected_report_is_not_retried(master: FakeMaster, outbox: Outbox) -> None:
    master.on("POST", METRICS, (400, {"message": "no such group"}))
    outbox.put(METRICS, b"{}")
    with pytest.raises(ReportRefused, match="no such group"):
        outbox.close()
    assert len(master.received("POST", METRICS)) == 1
