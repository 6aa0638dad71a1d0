"""Log lines wait while the agent is away. They arrive once, and lines that do not fit into the buffer are counted."""

import itertools

import pytest
from determined.common.http import Session
from determined.exec import _ship
from determined.exec._ship import Line, LogShipper

from tests.support.fake_master import Answer, FakeMaster, Request

LOGS = ("POST", "/api/v1/task/logs")
AWAY: Answer = (503, {"message": "the spool is full"})


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_PAUSE_S", "LONGEST_PAUSE_S", "LAST_PAUSE_S"):
        monkeypatch.setattr(_ship, name, 0.001)


@pytest.fixture
def logs(master: FakeMaster) -> LogShipper:
    return LogShipper(Session(master.url, retries=0), {"task_id": "1.task"})


def away_for(master: FakeMaster, tries: int, answer: Answer = AWAY) -> None:
    count = itertools.count(1)

    def decide(_request: Request) -> Answer:
        return answer if next(count) <= tries else (200, {})

    master.on(*LOGS, decide)


def add(logs: LogShipper, *texts: str) -> None:
    for text in texts:
        logs.add(Line(text, None, None), "stdout")


def shipped_texts(master: FakeMaster, refusals: int) -> list[str]:
    requests = master.received(*LOGS)[refusals:]
    return [line["log"].rstrip("\n") for request in requests for line in request.body["logs"]]


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("status", [429, 502, 503])
def test_lines_wait_for_an_absent_agent(master: FakeMaster, logs: LogShipper, status: int) -> None:
    away_for(master, 50, (status, {"message": "not now"}))
    add(logs, "one", "two")
    first = master.wait_for(*LOGS, count=51)[:51]
    assert len({request.headers["Idempotency-Key"] for request in first}) == 1
    logs.close(60)
    assert shipped_texts(master, refusals=50) == ["one", "two"]


def test_pauses_before_retrying_an_absent_agent(
    master: FakeMaster, logs: LogShipper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ship, "FIRST_PAUSE_S", 3600.0)
    away_for(master, 1)
    add(logs, "one")
    master.wait_for(*LOGS)
    add(logs, "two")
    assert len(master.received(*LOGS)) == 1
    logs.close(60)
    assert shipped_texts(master, refusals=1) == ["one", "two"], (
        "the end of the task does not wait for a pause"
    )


@pytest.mark.usefixtures("short_pauses")
def test_last_lines_wait_for_a_returning_agent(
    master: FakeMaster, logs: LogShipper, capfd: pytest.CaptureFixture[str]
) -> None:
    away_for(master, 50)
    add(logs, "the last words")
    logs.close(60)
    assert shipped_texts(master, refusals=50) == ["the last words"]
    assert capfd.readouterr().err == ""


def test_unshipped_lines_are_counted_with_the_cause(
    master: FakeMaster, logs: LogShipper, capfd: pytest.CaptureFixture[str]
) -> None:
    away_for(master, 1000)
    add(logs, "one")
    master.wait_for(*LOGS)
    add(logs, "two", "three")
    logs.close(0.3)
    assert capfd.readouterr().err == "3 log lines could not be shipped: the spool is full\n"


@pytest.mark.usefixtures("short_pauses")
def test_rejected_lines_do_not_block_other_lines(
    master: FakeMaster, logs: LogShipper, capfd: pytest.CaptureFixture[str]
) -> None:
    away_for(master, 1, (400, {"message": "odd"}))
    add(logs, "odd")
    master.wait_for(*LOGS)
    add(logs, "even")
    logs.close(60)
    assert shipped_texts(master, refusals=1) == ["even"]
    assert capfd.readouterr().err == "1 log lines could not be shipped: odd\n"


@pytest.mark.usefixtures("short_pauses")
def test_lines_that_fail_the_agent_block_others_only_for_a_limited_time(
    master: FakeMaster, logs: LogShipper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ship, "PATIENCE_S", 0.05)

    def fail_on_odd(request: Request) -> Answer:
        return AWAY if "odd" in str(request.body) else (200, {})

    master.on(*LOGS, fail_on_odd)
    add(logs, "odd")
    master.wait_for(*LOGS)
    add(logs, "even")
    logs.close(60)
    texts = [line["log"] for line in master.received(*LOGS)[-1].body["logs"]]
    assert texts == ["1 log lines were dropped: they could not be sent in time\n", "even\n"]


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize(("limit", "most"), [("MAX_WAITING", 3), ("MAX_WAITING_BYTES", 4000)])
def test_full_buffer_keeps_newest_lines_and_counts_the_others(
    master: FakeMaster,
    logs: LogShipper,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    most: int,
) -> None:
    monkeypatch.setattr(_ship, limit, most)
    monkeypatch.setattr(_ship, "LONGEST_PAUSE_S", 3600.0)
    monkeypatch.setattr(_ship, "FIRST_PAUSE_S", 3600.0)
    away_for(master, 1)
    texts = [f"{n}{'x' * 800}" for n in range(6)]
    add(logs, texts[0])
    master.wait_for(*LOGS)
    add(logs, *texts[1:])
    logs.close(60)
    message = "2 log lines were dropped: they could not be sent in time"
    assert shipped_texts(master, refusals=1) == [texts[0], message, *texts[3:]]
