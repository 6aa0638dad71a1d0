"""Metrics of several containers share a request while another one is under way, and do not delay each other."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from det_agent.report_delivery import Answer, ReportDelivery, TrialReport
from det_agent.runtime import ContainerKey
from determined.common.connections import Connections

from tests.support.fake_controlplane import FakeControlPlane

BLOCKS = b'{"group": "blocks"}'


def key_of(n: int) -> ContainerKey:
    return ContainerKey(f"c-{n}", 1, f"alloc-{n}", f"task-{n}", f"secret-{n}")


def metrics(n: int, body: bytes = b"{}", **headers: str) -> TrialReport:
    return TrialReport(
        f"/api/v1/trials/{n}/metrics", {"Idempotency-Key": f"k-{n}", **headers}, body
    )


class Together:
    """Sends reports of containers 1, 2, … while one of container 0 is being answered."""

    def __init__(self, plane: FakeControlPlane) -> None:
        self.plane = plane
        self.token = plane.admit()
        self.delivery = ReportDelivery(Connections(plane.url), lambda: self.token)
        self._sent, self._proceed = threading.Event(), threading.Event()
        self.answers: Callable[[str], int] = lambda path: 200
        plane.answer_to = self._answer

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        if body == BLOCKS and not self._sent.is_set():
            self._sent.set()
            self.plane.changed.release()
            self._proceed.wait(60)
            self.plane.changed.acquire()
            return 200, {}
        return self.answers(path), {"path": path}

    def deliver(self, *reports: TrialReport) -> list[Answer | None]:
        """Return the answers, after all of them waited for the one that is under way."""
        with ThreadPoolExecutor(len(reports) + 1) as threads:
            first = threads.submit(self.delivery.deliver, key_of(0), metrics(0, BLOCKS))
            assert self._sent.wait(60)
            sending = [
                threads.submit(self.delivery.deliver, key_of(n), report)
                for n, report in enumerate(reports, 1)
            ]
            while self.delivery.waiting + self._answered(sending) < len(reports):
                threading.Event().wait(0.001)
            self._proceed.set()
            assert first.result(60) is not None
            return [future.result(60) for future in sending]

    def status_of(self, n: int) -> int:
        """Return the status of the response to a single report of a container."""
        answer = self.delivery.deliver(key_of(n), metrics(n))
        assert answer is not None
        return answer.status

    @staticmethod
    def _answered(sending: "list[Future[Answer | None]]") -> int:
        return sum(future.done() for future in sending)


@pytest.fixture
def together(plane: FakeControlPlane, monkeypatch: pytest.MonkeyPatch) -> Together:
    monkeypatch.setattr("det_agent.report_delivery.PATIENCE_S", 60.0)
    return Together(plane)


def test_reports_during_a_request_share_the_next_one(together: Together) -> None:
    answers = together.deliver(*(metrics(n) for n in (1, 2, 3)))
    assert [(a.status, a.body) for a in answers if a] == [(200, b"{}")] * 3
    assert together.plane.together == [1, 3]
    requests = {
        (path, headers["Authorization"], headers["Idempotency-Key"])
        for _, path, headers, body in together.plane.forwarded
        if body != BLOCKS
    }
    assert requests == {(f"/api/v1/trials/{n}/metrics", f"secret-{n}", f"k-{n}") for n in (1, 2, 3)}


def test_single_report_is_a_batch_of_one(together: Together) -> None:
    assert together.deliver(metrics(1))[0] is not None
    assert together.plane.together == [1, 1]


def test_rejected_report_does_not_affect_others_of_its_batch(
    together: Together,
) -> None:
    together.answers = lambda path: 403 if "/2/" in path else 200
    answers = together.deliver(*(metrics(n) for n in (1, 2, 3)))
    assert [a.status for a in answers if a] == [200, 403, 200]
    assert together.plane.together == [1, 3]


@pytest.mark.parametrize(
    "report",
    [
        TrialReport("/api/v1/checkpoints", {}, b"{}"),
        TrialReport("/api/v1/trials/2/progress", {}, b"{}"),
        TrialReport("/api/v1/trials/2/metrics?x=1", {}, b"{}"),
        metrics(2, b'{"group": "validation"}'),
        metrics(2, b" " * 9000),
        metrics(2, b"\xff"),
        TrialReport("/api/v1/trials/2/metrics", {"Content-Encoding": "gzip"}, b"{}"),
    ],
)
def test_reports_that_cannot_be_batched_are_sent_alone(
    together: Together, report: TrialReport
) -> None:
    together.deliver(metrics(1), report, metrics(3))
    assert together.plane.together == [1, 2]
    assert (report.target, report.body) in [(p, b) for _, p, _, b in together.plane.forwarded]


@pytest.mark.parametrize("status", [404, 405])
def test_older_control_plane_gets_single_reports_and_later_batches(
    together: Together, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr("det_agent.report_delivery.ASK_AGAIN_S", 1.0)
    together.plane.refuses_together = status
    assert [together.status_of(n) for n in (1, 2, 3)] == [200] * 3
    assert together.plane.together == [1]
    together.plane.refuses_together = 0
    while together.plane.together == [1]:
        assert together.status_of(1) == 200
    assert together.plane.together == [1, 1]


@pytest.mark.parametrize("status", [400, 401, 413, 500])
def test_reports_of_a_rejected_batch_are_sent_alone(together: Together, status: int) -> None:
    together.plane.refuses_together = status
    assert [together.status_of(n) for n in (1, 2)] == [200, 200]
    assert together.plane.together == [1, 1]
    assert len(together.plane.forwarded) == 2


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_temporarily_rejected_batch_is_not_delivered(together: Together, status: int) -> None:
    together.plane.refuses_together = status
    assert together.delivery.deliver(key_of(1), metrics(1)) is None
    assert together.plane.forwarded == []


def test_agent_without_a_token_sends_single_reports(together: Together) -> None:
    together.token = ""
    assert None not in together.deliver(metrics(1), metrics(2))
    assert together.plane.together == []


def test_agent_with_an_expired_token_sends_single_reports(together: Together) -> None:
    together.plane.forget_agent()
    assert [a.status for a in together.deliver(metrics(1), metrics(2)) if a] == [200, 200]


def test_batch_with_a_lost_response_is_not_delivered(together: Together) -> None:
    def lose(path: str) -> int:
        together.plane.lost_forwarded_answers = 1
        return 200

    together.answers = lose
    assert together.deliver(metrics(1), metrics(2)) == [None, None]
    assert together.plane.together == [1, 2]


def test_hanging_batch_does_not_delay_later_reports(
    plane: FakeControlPlane,
) -> None:
    together = Together(plane)
    with ThreadPoolExecutor(3) as threads:
        hangs = threads.submit(together.delivery.deliver, key_of(0), metrics(0, BLOCKS))
        assert together._sent.wait(60)
        others = [threads.submit(together.delivery.deliver, key_of(n), metrics(n)) for n in (1, 2)]
        assert [other.result(60) is not None for other in others] == [True, True]
        assert not hangs.done()
        together._proceed.set()
        assert hangs.result(60) is not None
