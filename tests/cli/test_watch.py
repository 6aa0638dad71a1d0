"""`det experiment watch` without a terminal, and its behaviour in outages."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from det_cli.live.observer import Observer, SignInExpired
from determined.common.http import APIError, MasterUnreachableError, UnauthenticatedError

from tests.cli.conftest import Det
from tests.support.fake_api import RecordedRequest, Refusal
from tests.support.fake_cluster import FakeCluster


@pytest.fixture
def running(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster with experiment 3, which ends after it was read three times."""
    monkeypatch.setattr("det_cli.live.show.time.sleep", lambda seconds: None)
    config = {"searcher": {"name": "single", "metric": "val_loss"}}
    cluster.add(3, username="determined", config=config, state="STATE_RUNNING", progress=0.0)
    ends_after(cluster, 3, "STATE_COMPLETED")
    return cluster


def ends_after(cluster: FakeCluster, looks: int, state: str) -> None:
    experiment = cluster.experiments[3]
    remaining = iter(range(1, looks))

    def answer(_: RecordedRequest) -> Any:
        if next(remaining, None) is None:
            experiment.update(state=state, progress=1.0)
        return {"experiment": experiment}

    cluster.on("GET", "/api/v1/experiments/3", answer)


def test_each_change_prints_a_line_without_terminal(running: FakeCluster, det: Det) -> None:
    result = det("e", "watch", 3)
    lines = [line.split(" ", 1)[1] for line in result.out.splitlines()]
    assert lines == [
        "RUNNING 0%; 1 trial (1 running); best val_loss 0.25 (trial 30)",
        "COMPLETED 100%; 1 trial (1 running); best val_loss 0.25 (trial 30)",
    ]
    assert (result.code, result.err) == (0, "")


def test_watch_of_failed_experiment_exits_with_1(running: FakeCluster, det: Det) -> None:
    ends_after(running, 1, "STATE_ERROR")
    result = det("e", "watch", 3)
    assert result.code == 1
    assert "exited with code 3" in result.out


def test_json_prints_one_object_per_line(running: FakeCluster, det: Det) -> None:
    lines = det("e", "watch", 3, "--json").out.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["RUNNING", "COMPLETED"]


def test_once_prints_one_view(running: FakeCluster, det: Det) -> None:
    result = det("e", "watch", 3, "--once")
    assert result.code == 0
    assert result.out.splitlines()[0].startswith("experiment 3  RUNNING")
    assert "\x1b" not in result.out
    assert json.loads(det("e", "watch", 3, "--once", "--json").out)["id"] == 3


def test_curves_are_read_again_only_after_progress(running: FakeCluster, det: Det) -> None:
    points = [{"batches": 100, "values": {"val_loss": 0.5}}]
    curve = {"trial": {"id": 30}, "metrics": [{"group": "validation", "data": points}]}
    running.on("GET", "/api/v1/trials/time-series", {"trials": [curve]})
    assert det("e", "watch", 3).code == 0
    (request,) = running.sent("GET", "/api/v1/trials/time-series")
    assert request.query["trialIds"] == ["30"]


def test_missing_route_is_requested_once(running: FakeCluster, det: Det) -> None:
    def absent(_: RecordedRequest) -> Any:
        raise Refusal(404, "no such path")

    running.on("GET", "/api/v1/why/experiment/3", absent)
    assert det("e", "watch", 3).code == 0
    assert len(running.sent("GET", "/api/v1/why/experiment/3")) == 1
    assert len(running.sent("GET", "/api/v1/experiments/3")) == 3


def test_outage_is_reported_and_watch_continues(running: FakeCluster, det: Det) -> None:
    answers: Iterator[Any] = iter([None, Refusal(503, "restarting"), Refusal(503, "restarting")])
    inner = running.routes[0][2]

    def answer(request: RecordedRequest) -> Any:
        refusal = next(answers, None)
        if refusal is not None:
            raise refusal
        return inner(request)

    running.on("GET", "/api/v1/experiments/3", answer)
    result = det("e", "watch", 3)
    assert result.code == 0
    assert result.err.splitlines() == [
        "No answer, trying again: the cluster answers 503: restarting",
        "The cluster answers again.",
    ]


def test_expired_sign_in_ends_the_watch(
    running: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.add(3, username="ada", state="STATE_RUNNING")
    monkeypatch.setenv("DET_USER_TOKEN", "token-ada")
    running.tokens["token-ada"] = "ada"
    looks = iter([1])

    def answer(_: RecordedRequest) -> Any:
        if next(looks, None) is None:
            raise Refusal(401, "the token has expired")
        return {"experiment": running.experiments[3]}

    running.on("GET", "/api/v1/experiments/3", answer)
    result = det("e", "watch", 3)
    assert result.code == 4
    assert "the sign-in has expired: DET_USER_TOKEN holds a token that is" in result.err
    assert "det user login" in result.err


def test_unknown_experiment_ends_the_watch(cluster: FakeCluster, det: Det) -> None:
    result = det("e", "watch", 9)
    assert (result.code, result.out) == (3, "")
    assert "experiment '9' not found" in result.err


class Scripted:
    """A reader that returns the states of a list, and raises the errors of the list."""

    def __init__(self, *answers: object) -> None:
        self._answers = iter(answers)

    def __call__(self) -> object:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_pauses_grow_without_changes() -> None:
    observer = Observer(Scripted(*[1] * 7, 2))
    pauses = [observer.look().pause_s for _ in range(8)]
    assert pauses == [2.0, 3.0, 4.5, 6.75, 10.0, 10.0, 10.0, 2.0]


def test_large_states_are_read_less_often() -> None:
    observer: Observer[int] = Observer(lambda: 1000, least_s=lambda n: n / 100)
    assert observer.look().pause_s == 10.0


def test_pauses_double_in_an_outage_and_the_last_state_is_kept() -> None:
    error = MasterUnreachableError("cannot reach it")
    observer = Observer(Scripted(1, *[error] * 6, 1), now=iter(range(100)).__next__)
    news = [observer.look() for _ in range(8)]
    assert [n.pause_s for n in news] == [2.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 2.0]
    assert {n.state for n in news} == {1}
    assert len({n.seen_at for n in news}) == 2
    assert [bool(n.outage) for n in news] == [False, *[True] * 6, False]


def test_retry_after_sets_the_pause() -> None:
    busy = APIError(429, "slow down")
    busy.retry_after_s = 25.0
    assert Observer(Scripted(busy)).look().pause_s == 25.0


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (UnauthenticatedError(401, "no"), SignInExpired),
        (APIError(404, "gone"), APIError),
        (ValueError("a defect"), ValueError),
    ],
)
def test_other_failures_end_the_watch(error: Exception, failure: type[Exception]) -> None:
    assert isinstance(Observer(Scripted(1, error)).look().failure, type(None))
    observer = Observer(Scripted(error))
    assert isinstance(observer.look().failure, failure)
