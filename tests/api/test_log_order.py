"""Lines of containers, agents and the cluster arrive in another order than they were written in."""

import json
from datetime import timedelta
from typing import Any

import pytest
from det_controlplane.api.http import Request, Stream
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.logs import log_windows, logs
from det_controlplane.services.logs import task_logs

from tests.support.api import Api, Caller, create, trial_of


@pytest.fixture
def task_id(user: Caller) -> str:
    return str(trial_of(user, create(user))["taskId"])


def arrive(caller: Caller, task_id: str, *texts: str) -> None:
    """Post lines, each of which was written in the second that is its text."""
    logs = [
        {"taskId": task_id, "log": text, "timestamp": f"2026-01-01T00:00:{text}Z"} for text in texts
    ]
    caller.post("/api/v1/task/logs", {"logs": logs})


def following(api: Api, caller: Caller, task_id: str) -> Stream:
    path, headers = f"/api/v1/tasks/{task_id}/logs", {"authorization": f"Bearer {caller.token}"}
    response = api.app.handle(Request("GET", path, query={"follow": ["true"]}, headers=headers))
    assert isinstance(response, Stream)
    return response


def shown(caller: Caller, task_id: str, **query: str) -> list[str]:
    filters = {name: [value] for name, value in query.items()}
    return [line["log"] for line in caller.lines(f"/api/v1/tasks/{task_id}/logs", filters)]


def test_log_lines_are_sorted_by_time(user: Caller, task_id: str) -> None:
    arrive(user, task_id, "03", "05")
    arrive(user, task_id, "01", "04")
    assert shown(user, task_id) == ["01", "03", "04", "05"]


def test_log_lines_with_equal_times_have_the_order_of_arrival(user: Caller, task_id: str) -> None:
    timestamp = "2026-01-01T00:00:00Z"
    logs = [{"taskId": task_id, "log": str(n), "timestamp": timestamp} for n in (2, 1, 3)]
    user.post("/api/v1/task/logs", {"logs": logs})
    assert shown(user, task_id) == ["2", "1", "3"]


def test_last_log_lines_are_the_latest(user: Caller, task_id: str) -> None:
    arrive(user, task_id, "03", "05", "01")
    assert shown(user, task_id, orderBy="ORDER_BY_DESC", limit="2") == ["05", "03"]
    assert shown(user, task_id, limit="2") == ["01", "03"]


def test_pages_contain_every_log_line(user: Caller, task_id: str) -> None:
    texts = [f"{n % 60:02}" for n in range(0, 5 * 777, 5)] * 2
    arrive(user, task_id, *texts)
    for order in ("ORDER_BY_ASC", "ORDER_BY_DESC"):
        assert sorted(shown(user, task_id, orderBy=order)) == sorted(texts)


def test_follower_receives_late_log_lines(api: Api, user: Caller, task_id: str) -> None:
    arrive(user, task_id, "05", "03")
    stream = following(api, user, task_id)
    first = stream.fetch(stream.cursor)
    arrive(user, task_id, "04", "06")
    second = stream.fetch(first.cursor)
    assert [_texts(batch) for batch in (first, second)] == [["03", "05"], ["04", "06"]]


def test_resumed_stream_contains_late_log_lines(user: Caller, task_id: str) -> None:
    arrive(user, task_id, "30")
    (line,) = user.lines(f"/api/v1/tasks/{task_id}/logs")
    arrive(user, task_id, "01", "40")
    query = {"afterId": line["id"], "timestampAfter": "2026-01-01T00:00:20Z"}
    assert shown(user, task_id, **query) == ["01", "40"]


def test_follower_receives_lines_of_late_commits(
    api: Api, user: Caller, task_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_logs, "SETTLE_S", 0.0)
    arrive(user, task_id, "00")
    stream = following(api, user, task_id)
    reported_batch = stream.fetch(stream.cursor)
    with api.ctx.db.begin() as tx:
        logs.add_line(tx, task_id, "late", api.ctx.now())
        arrive(user, task_id, "01", "02")
        held_back = stream.fetch(reported_batch.cursor)
    arrive(user, task_id, "03")
    caught_up = stream.fetch(held_back.cursor)
    after = stream.fetch(caught_up.cursor)
    assert [_texts(batch) for batch in (reported_batch, held_back, caught_up, after)] == [
        ["00"], [], ["01", "02", "03", "late"], [],
    ]  # fmt: skip


def test_follower_waits_only_for_earlier_transactions(
    api: Api, user: Caller, task_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(user, task_id, "01")
    id_sets = iter([{"1/1", "2/2"}, {"2/2", "3/3"}, {"3/3", "4/4"}])
    monkeypatch.setattr(log_windows, "writers", lambda _tx, _longest: next(id_sets))
    monkeypatch.setattr(task_logs, "SETTLE_S", 60.0)
    monkeypatch.setattr(task_logs, "SETTLE_LOOK_S", 0.0)
    stream = following(api, user, task_id)
    assert _texts(stream.fetch(stream.cursor)) == ["01"]


def test_hanging_transaction_does_not_block_followers(
    api: Api, user: Caller, task_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_logs, "LONGEST_WRITING", timedelta(0))
    with api.ctx.db.begin() as tx:
        logs.add_line(tx, task_id, "hangs", api.ctx.now())
        arrive(user, task_id, "01")
        stream = following(api, user, task_id)
        assert _texts(stream.fetch(stream.cursor)) == ["01"]


def test_line_stored_during_a_read_is_sent_once(
    api: Api, user: Caller, task_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(user, task_id, "01")
    stream = following(api, user, task_id)
    first = stream.fetch(stream.cursor)
    edge = log_windows.edge

    def and_then_more(tx: Tx, task: str, descending: bool) -> int | None:
        lines = edge(tx, task, descending)
        monkeypatch.setattr(log_windows, "edge", edge)
        arrive(user, task_id, "02")
        return lines

    monkeypatch.setattr(log_windows, "edge", and_then_more)
    second = stream.fetch(first.cursor)
    third = stream.fetch(second.cursor)
    assert _texts(second) + _texts(third) == ["02"]


def _texts(batch: Any) -> list[str]:
    return [json.loads(line)["result"]["log"] for line in batch.lines]
