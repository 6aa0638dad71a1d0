"""Requests of a running task wait while the agent is away. Rejected requests do not wait."""

import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from determined import core
from determined._task_session import bounded_task_session, task_session
from determined.common import http
from determined.common.connections import Connections
from determined.common.http import APIError, MasterUnreachableError
from determined.core import _preempt
from determined.exec import _credentials
from determined.exec._credentials import add_credentials
from determined.experimental import client

from tests.support.fake_master import HANG_UP, Answer, FakeMaster, Request
from tests.support.ports import free_port

Enter = Callable[..., dict[str, str]]
TEN_MINUTES_S, DAY_S = 600.0, 24 * 3600.0
TRIAL = "/api/v1/trials/7"
GOOGLE = {
    "access_token": "ya29", "expires_in": 3000, "token_type": "Bearer", "project": "research",
    "email": "machine@research.iam.gserviceaccount.com", "scopes": [],
}  # fmt: skip
ACK = r".*/signals/ack_preemption"


class Clock:
    """A clock that advances only when requests sleep, so that tests take no time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.alarm: tuple[float, Callable[[], Any]] | None = None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.alarm is not None and self.now >= self.alarm[0]:
            (_, ring), self.alarm = self.alarm, None
            ring()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(http, "time", SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep))
    return clock


@pytest.fixture
def agent_returns(clock: Clock, on_cluster: Enter) -> Iterator[Callable[[float], list[FakeMaster]]]:
    """Set up a trial with an absent agent. The returned function lets the agent return after some seconds."""
    with ExitStack() as opened:

        def after(seconds: float) -> list[FakeMaster]:
            port, gateways = free_port(), []

            def start() -> None:
                gateway = FakeMaster(port)
                opened.callback(gateway.close)
                gateway.on("GET", TRIAL, (200, {"trial": {"state": "STATE_RUNNING"}}))
                gateways.append(gateway)

            clock.alarm = (seconds, start)
            on_cluster(DET_MASTER=f"http://127.0.0.1:{port}")
            return gateways

        yield after


@pytest.mark.parametrize("away_s", [75.0, TEN_MINUTES_S, DAY_S])
def test_request_waits_until_agent_returns(
    clock: Clock,
    agent_returns: Callable[[float], list[FakeMaster]],
    caplog: pytest.LogCaptureFixture,
    away_s: float,
) -> None:
    agent_returns(away_s)
    with caplog.at_level(logging.WARNING):
        assert task_session().get(TRIAL) == {"trial": {"state": "STATE_RUNNING"}}
    assert away_s <= clock.now < away_s + http.LONGEST_PAUSE_S
    waits, goes_on = caplog.messages
    assert waits.startswith("the agent of this machine does not answer")
    assert waits.endswith("requests wait for its return")
    assert goes_on.startswith("the agent of this machine answers again after")


def test_trial_starts_while_agent_is_away(
    agent_returns: Callable[[float], list[FakeMaster]],
) -> None:
    gateways = agent_returns(TEN_MINUTES_S)
    with core.init() as context:
        context.train.report_training_metrics(1, {"loss": 1.0})
        assert context.train.get_experiment_best_validation() is None
    (gateway,) = gateways
    assert gateway.received("POST", f"{TRIAL}/metrics")


def test_resends_request_after_timeout(
    clock: Clock, master: FakeMaster, on_cluster: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway may hold a request longer than the request's timeout, while the control plane is away."""
    on_cluster()
    exchange, silences = Connections.exchange, iter(range(20))

    def silent_at_first(self: Connections, *args: Any, **options: Any) -> Any:
        for _ in silences:
            raise TimeoutError("timed out")
        return exchange(self, *args, **options)

    monkeypatch.setattr(Connections, "exchange", silent_at_first)
    task_session().post(f"{TRIAL}/progress", {})
    (request,) = master.received("POST", f"{TRIAL}/progress")
    assert request.headers["Idempotency-Key"]


@pytest.mark.parametrize("status", [400, 403, 404, 500])
def test_rejected_request_does_not_wait(
    clock: Clock, master: FakeMaster, on_cluster: Enter, status: int
) -> None:
    on_cluster()
    master.on("GET", TRIAL, (status, {"message": "refused"}))
    with pytest.raises(APIError, match="refused"):
        task_session().get(TRIAL)
    assert clock.now == 0


@pytest.mark.parametrize("status", [503, HANG_UP])
def test_raises_if_gateway_never_answers_one_kind_of_request(
    clock: Clock, master: FakeMaster, on_cluster: Enter, status: int
) -> None:
    on_cluster()
    master.on("GET", TRIAL, (status, {"message": "it is broken"}))
    with pytest.raises((APIError, MasterUnreachableError)):
        task_session().get(TRIAL)
    assert len(master.received("GET", TRIAL)) == 6


def test_bounded_session_does_not_wait(
    clock: Clock, agent_returns: Callable[[float], list[FakeMaster]]
) -> None:
    agent_returns(TEN_MINUTES_S)
    with pytest.raises(MasterUnreachableError):
        bounded_task_session().get(TRIAL)
    assert clock.now < 20


def test_sdk_in_a_task_waits_for_agent(
    agent_returns: Callable[[float], list[FakeMaster]], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_returns(TEN_MINUTES_S)
    monkeypatch.setenv("DET_USER_TOKEN", "token-1")
    session = client.Determined()._session
    assert session.get(TRIAL) == {"trial": {"state": "STATE_RUNNING"}}


@pytest.fixture
def google_token(
    master: FakeMaster, on_cluster: Enter, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Any]:
    """Return a function that requests a Google Cloud token as Google's libraries do in a container."""
    master.on("GET", f"{_credentials.AGENT_PATH}gcp", (200, GOOGLE))
    place = add_credentials(on_cluster(DET_MACHINE_CREDENTIALS="gcp"))["GCE_METADATA_HOST"]
    path = "/computeMetadata/v1/instance/service-accounts/default/token"
    request = urllib.request.Request(f"http://{place}{path}", headers={"Metadata-Flavor": "Google"})

    def ask() -> Any:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    return ask


def test_machine_credentials_are_served_until_they_expire(
    master: FakeMaster, google_token: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = time.monotonic()
    assert google_token()["expires_in"] == 3000
    master.on("GET", f"{_credentials.AGENT_PATH}gcp", (HANG_UP, {}))
    monkeypatch.setattr(_credentials, "time", SimpleNamespace(monotonic=lambda: begin + 2000))
    token = google_token()
    assert token["access_token"] == "ya29"
    assert 0 < token["expires_in"] <= 1001
    monkeypatch.setattr(_credentials, "time", SimpleNamespace(monotonic=lambda: begin + 4000))
    with pytest.raises(urllib.error.HTTPError, match="503"):
        google_token()


def test_preempted_trial_saves_while_acknowledgement_is_delayed(
    master: FakeMaster, on_cluster: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cluster()
    monkeypatch.setattr(_preempt, "ACK_WAIT_S", 0.01)
    checkpoint_is_saved = threading.Event()
    arrived_after: list[bool] = []

    def acknowledged(_: Request) -> Answer:
        arrived_after.append(checkpoint_is_saved.wait(60))
        return 200, {}

    master.on("POST", ACK, acknowledged)
    master.preempt.set()
    with core.init() as context:
        assert context.preempt.should_preempt()
        checkpoint_is_saved.set()
    assert arrived_after == [True]
