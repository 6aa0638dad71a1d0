"""Searching logs: for a text, or for a regular expression."""

import pytest
from det_controlplane.services.logs import task_logs

from tests.support.api import Caller, create, trial_of


@pytest.fixture
def task_id(user: Caller) -> str:
    return str(trial_of(user, create(user))["taskId"])


def write(caller: Caller, task_id: str, *texts: str) -> None:
    caller.post("/api/v1/task/logs", {"logs": [{"taskId": task_id, "log": t} for t in texts]})


def found(caller: Caller, task_id: str, search: str, **query: str) -> list[str]:
    body = {"searchText": search, "enableRegex": "true", **query}
    lines = caller.lines(f"/api/v1/tasks/{task_id}/logs", {k: [v] for k, v in body.items()})
    return [line["log"] for line in lines]


def test_regular_expression_matches_words(user: Caller, task_id: str) -> None:
    write(user, task_id, "one food\n", "two foo\n", "three FOO\n")
    assert found(user, task_id, r"\bfoo$") == ["two foo\n"]
    assert found(user, task_id, r"(?i)\bfoo\b") == ["two foo\n", "three FOO\n"]
    assert found(user, task_id, r"\bfoo", enableRegex="false") == []


def test_plain_text_is_matched_literally(user: Caller, task_id: str) -> None:
    write(user, task_id, "at 100 %", "at 1000", "C:\\data", "C:data", "a_b", "A_B", "acb")
    for text, lines in {"100 %": 1, "100": 2, "C:\\": 1, "a_b": 2, "%": 1}.items():
        assert len(found(user, task_id, text, enableRegex="false")) == lines, text
    assert found(user, task_id, r"100 %$") == ["at 100 %"]
    assert found(user, task_id, r"a_b|x") == ["a_b"]
    assert found(user, task_id, r"C:\\da.a") == ["C:\\data"]


def test_search_finds_lines_far_apart(user: Caller, task_id: str) -> None:
    texts = [f"line {n}" for n in range(3500)]
    write(user, task_id, *texts)
    expected_texts = [t for t in texts if t.endswith("77")]
    assert found(user, task_id, "77$") == expected_texts
    assert found(user, task_id, "77$", orderBy="ORDER_BY_DESC") == expected_texts[::-1]
    assert found(user, task_id, "77$", limit="3") == expected_texts[:3]


def test_hostile_expression_gets_a_response(user: Caller, task_id: str) -> None:
    write(user, task_id, "a" * 60_000 + "b", "aaa")
    assert found(user, task_id, "^(a+)+$") == ["aaa"]


@pytest.mark.parametrize("search", ["(", "(?=a)"])
def test_rejects_invalid_expression(user: Caller, task_id: str, search: str) -> None:
    query = {"searchText": [search], "enableRegex": ["true"]}
    response = user.ask("GET", f"/api/v1/tasks/{task_id}/logs", query=query)
    assert response.status == 400
    assert "searchText is not a regular expression of RE2" in response.error


@pytest.mark.parametrize("regex", ["true", "false"])
@pytest.mark.parametrize("order", ["ORDER_BY_ASC", "ORDER_BY_DESC"])
def test_log_is_searched_in_parts(
    user: Caller, task_id: str, monkeypatch: pytest.MonkeyPatch, regex: str, order: str
) -> None:
    monkeypatch.setattr(task_logs, "SPAN", 7)
    monkeypatch.setattr(task_logs, "TEXTS", 3)
    texts = [f"line {n}" for n in range(100)]
    write(user, task_id, *texts)
    expected_texts = [t for t in texts if "line 3" in t]
    expected = expected_texts if order.endswith("ASC") else expected_texts[::-1]
    assert found(user, task_id, "line 3", enableRegex=regex, orderBy=order) == expected


@pytest.mark.parametrize("regex", ["true", "false"])
def test_long_search_continues_at_its_position(
    user: Caller, task_id: str, monkeypatch: pytest.MonkeyPatch, regex: str
) -> None:
    monkeypatch.setattr(task_logs, "SPAN", 7)
    monkeypatch.setattr(task_logs, "TEXTS", 3)
    monkeypatch.setattr(task_logs, "SEARCH_S", 0.0)
    write(user, task_id, *(f"line {n}" for n in range(40)))
    expected_texts = [f"line {n}" for n in (3, *range(30, 40))]
    assert found(user, task_id, "line 3", enableRegex=regex) == expected_texts
