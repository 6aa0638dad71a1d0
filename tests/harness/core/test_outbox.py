"""Reports wait for a server that is away, whatever answers in its place."""

import itertools

import pytest
from determined.common.http import Session
from determined.core import _outbox
from determined.core._outbox import Outbox, ReportRefused

from tests.support.fake_master import Answer, FakeMaster, Request

METRICS = "/api/v1/trials/7/metrics"


@pytest.fixture
def outbox(master: FakeMaster) -> Outbox:
    return Outbox(Session(master.url, retries=0))


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_report_waits_while_a_server_is_away(
    master: FakeMaster, outbox: Outbox, status: int
) -> None:
    tries = itertools.count(1)

    def decide(_request: Request) -> Answer:
        return (status, {"message": "away"}) if next(tries) <= 20 else (200, {})

    master.on("POST", METRICS, decide)
    outbox.put(METRICS, b"{}")
    outbox.close()
    received = master.received("POST", METRICS)
    assert len(received) == 21
    assert len({request.headers["Idempotency-Key"] for request in received}) == 1


def test_a_server_that_stays_away_is_told_in_the_end(
    master: FakeMaster, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_outbox, "GIVE_UP_AFTER_S", 0.0)
    master.on("POST", METRICS, (503, {"message": "away for good"}))
    outbox.put(METRICS, b"{}")
    with pytest.raises(ReportRefused, match="away for good"):
        outbox.close()


def test_a_refusal_is_not_tried_again(master: FakeMaster, outbox: Outbox) -> None:
    master.on("POST", METRICS, (400, {"message": "no such group"}))
    outbox.put(METRICS, b"{}")
    with pytest.raises(ReportRefused, match="no such group"):
        outbox.close()
    assert len(master.received("POST", METRICS)) == 1
