"""`det … logs`: printing, filtering and following logs."""

import json
from typing import Any

import pytest
from determined.common import log_stream
from determined.experimental import Determined

from tests.cli.conftest import Det
from tests.support.fake_api import Raw, RecordedRequest
from tests.support.fake_cluster import FakeCluster, log_line

_TASK = "0a1b2c3d-0000-4000-8000-000000000001"
EVERY_LOG = (
    "t logs 10", "e logs 1", f"task logs {_TASK}", f"cmd logs {_TASK}", f"notebook logs {_TASK}", f"shell logs {_TASK}",
)  # fmt: skip


@pytest.fixture
def logged(cluster: FakeCluster) -> FakeCluster:
    cluster.add(1)
    cluster.logs = [log_line(i, f"line {i}") for i in range(1, 6)]
    return cluster


def texts(out: str) -> list[str]:
    return [line.split("] ")[1] for line in out.splitlines()]


def test_logs_are_printed_as_the_server_formats_them(logged: FakeCluster, det: Det) -> None:
    result = det("trial", "logs", 10)
    assert result.code == 0
    assert result.out.splitlines()[0] == "[2026-11-20T10:00:00.123456Z] line 1"
    assert len(result.out.splitlines()) == 5
    assert "det trial logs -f 10" in result.err


def test_tail_prints_last_lines_in_order(logged: FakeCluster, det: Det) -> None:
    assert texts(det("t", "logs", 10, "--tail", 2).out) == ["line 4", "line 5"]


@pytest.mark.parametrize("command", EVERY_LOG)
@pytest.mark.parametrize("end", ["--tail", "--head"])
def test_zero_lines_prints_no_output_and_requests_one_line(
    logged: FakeCluster, det: Det, command: str, end: str
) -> None:
    result = det(*command.split(), end, 0)
    assert (result.code, result.out) == (0, "")
    (request,) = logged.sent("GET", "/api/v1/.*/logs")
    assert request.first("limit") == "1"


@pytest.mark.parametrize("number", ["-1", "x"])
def test_invalid_number_of_lines_is_rejected(logged: FakeCluster, det: Det, number: str) -> None:
    result = det("t", "logs", 10, "--tail", number)
    assert (result.code, "--tail" in result.err) == (2, True)


def test_head_prints_first_lines(logged: FakeCluster, det: Det) -> None:
    assert texts(det("t", "logs", 10, "--head", 2).out) == ["line 1", "line 2"]


def test_json_prints_one_object_per_line(logged: FakeCluster, det: Det) -> None:
    lines = det("t", "logs", 10, "--json").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["1", "2", "3", "4", "5"]


def test_experiment_logs_are_logs_of_first_trial(logged: FakeCluster, det: Det) -> None:
    assert det("e", "logs", 1).code == 0
    assert len(logged.sent("GET", "/api/v1/trials/10/logs")) == 1


def test_experiment_without_trials_names_det_why(logged: FakeCluster, det: Det) -> None:
    logged.trials.clear()
    result = det("e", "logs", 1)
    assert result.code == 3
    assert "det why experiment 1" in result.err


def test_filters_are_sent_to_the_server(logged: FakeCluster, det: Det) -> None:
    flags = ["--rank-id", 0, "--rank-id", 3, "--level", "ERROR", "--source", "task"]
    det("t", "logs", 10, *flags, "--stdtype", "stderr", "--timestamp-after", "2026-01-01T00:00:00Z")
    (request,) = logged.sent("GET", "/api/v1/trials/10/logs")
    assert request.query == {
        "rankIds": ["0", "3"],
        "levels": ["LOG_LEVEL_ERROR", "LOG_LEVEL_CRITICAL"],
        "sources": ["task"],
        "stdtypes": ["stderr"],
        "timestampAfter": ["2026-01-01T00:00:00Z"],
    }


def test_unknown_source_is_reported_with_existing_sources(cluster: FakeCluster, det: Det) -> None:
    cluster.add(1)
    fields = {"sources": ["task", "agent"], "stdtypes": ["stdout"]}
    cluster.on("GET", "/api/v1/trials/10/logs/fields", lambda _: iter([{"result": fields}]))
    result = det("t", "logs", 10, "--source", "tsak", "--source", "task", "--stdtype", "STDERR")
    assert (result.code, result.out) == (0, "")
    assert "no line of this log has --source tsak; it has: agent, task\n" in result.err
    assert "no line of this log has --stdtype STDERR; it has: stdout\n" in result.err
    assert "--source task;" not in result.err


@pytest.mark.parametrize("command", EVERY_LOG)
def test_search_and_regex_are_sent_to_the_server(
    logged: FakeCluster, det: Det, command: str
) -> None:
    assert det(*command.split(), "--search", "loss").code == 0
    assert det(*command.split(), "--search", "loss=(nan|inf)", "--regex", "--tail", 5).code == 0
    text, regex = logged.sent("GET", "/api/v1/.*/logs")
    assert text.query == {"searchText": ["loss"]}
    assert regex.first("searchText") == "loss=(nan|inf)"
    assert regex.first("enableRegex") == "true"


def test_regex_requires_search(logged: FakeCluster, det: Det) -> None:
    result = det("t", "logs", 10, "--regex")
    assert (result.code, "--search" in result.err) == (2, True)
    assert not logged.sent("GET", "/api/v1/.*/logs")


def test_task_logs_filter_by_allocation(logged: FakeCluster, det: Det) -> None:
    det("task", "logs", "1.t10", "--allocation-id", "1.t10.2")
    (request,) = logged.sent("GET", "/api/v1/tasks/1.t10/logs")
    assert request.query["allocationIds"] == ["1.t10.2"]


def running_until(cluster: FakeCluster, answers: list[Any]) -> None:
    """Answer each request for logs with the next batch. The trial ends with the last batch."""
    cluster.trials[10]["state"] = "STATE_RUNNING"
    remaining = iter(answers)

    def read(_: RecordedRequest) -> Any:
        answer = next(remaining)
        if answer is answers[-1]:
            cluster.trials[10]["state"] = "STATE_COMPLETED"
        return answer if isinstance(answer, Raw) else iter([{"result": line} for line in answer])

    cluster.on("GET", r"/api/v1/trials/10/logs", read)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream, "_REOPEN_AFTER_S", 0.0)


def test_follow_resumes_after_stream_ends_early(logged: FakeCluster, det: Det, quick: None) -> None:
    one, two, three = logged.logs[:3]
    running_until(logged, [[one, two], [two, three], [two, three]])
    result = det("t", "logs", 10, "-f")
    assert texts(result.out) == ["line 1", "line 2", "line 3"]
    later = logged.sent("GET", "/api/v1/trials/10/logs")[1]
    assert later.first("timestampAfter") == "2026-11-20T09:59:50.123456Z"
    assert later.first("afterId") == "2"


def test_follow_resumes_after_connection_breaks_inside_a_line(
    logged: FakeCluster, det: Det, quick: None
) -> None:
    one, two = logged.logs[:2]
    content = json.dumps({"result": one}).encode() + b"\n" + b'{"result": {"id"'
    response = Raw(content + b" " * 100, cut_after=len(content))
    whole = [one, two]
    running_until(logged, [response, whole, whole])
    assert texts(det("t", "logs", 10, "-f").out) == ["line 1", "line 2"]


def test_follow_retries_gateway_errors(logged: FakeCluster, det: Det, quick: None) -> None:
    away = Raw(b"", status=503)
    running_until(logged, [away, logged.logs[:1], [*logged.logs[:2]]])
    assert texts(det("t", "logs", 10, "-f").out) == ["line 1", "line 2"]


def test_follow_fails_if_cluster_stays_unreachable(
    logged: FakeCluster, det: Det, quick: None
) -> None:
    logged.trials[10]["state"] = "STATE_RUNNING"
    logged.on("GET", r"/api/v1/trials/10/logs", Raw(b"", status=503))
    result = det("t", "logs", 10, "-f")
    assert result.code == 1
    assert "HTTP 503" in result.err


def test_follow_reads_remaining_lines_of_ended_trial(
    logged: FakeCluster, det: Det, quick: None
) -> None:
    one, two = logged.logs[:2]
    running_until(logged, [[one], [two]])
    logged.on("GET", r"/api/v1/trials/10", _ended_after_first(logged))
    assert texts(det("t", "logs", 10, "-f").out) == ["line 1", "line 2"]


def _ended_after_first(cluster: FakeCluster) -> Any:
    states = iter(["STATE_RUNNING", "STATE_COMPLETED"])
    return lambda _: {"trial": {**cluster.trials[10], "state": next(states)}}


def test_tail_with_follow_prints_each_line_once(logged: FakeCluster, det: Det, quick: None) -> None:
    result = det("t", "logs", 10, "--tail", 2, "-f")
    assert texts(result.out) == ["line 4", "line 5"]


@pytest.mark.parametrize("how", ["command", "sdk"])
def test_tail_with_follow_prints_line_committed_late(
    logged: FakeCluster, det: Det, quick: None, how: str
) -> None:
    """Line 3 has a lower id than the newest line, but is committed after the tail is read."""
    stored_lines = [line for line in logged.logs if line["id"] != "3"]

    def read(request: RecordedRequest) -> Any:
        if request.first("orderBy") == "ORDER_BY_DESC":
            return iter(
                [{"result": x} for x in stored_lines[::-1][: int(request.first("limit") or 0)]]
            )
        logged.trials[10]["state"] = "STATE_COMPLETED"
        after = int(request.first("afterId") or 0)
        return iter([{"result": x} for x in logged.logs if int(x["id"]) > after])

    logged.trials[10]["state"] = "STATE_RUNNING"
    logged.on("GET", r"/api/v1/trials/10/logs", read)
    if how == "command":
        assert texts(det("t", "logs", 10, "--tail", 1, "-f").out) == ["line 5", "line 3"]
    else:
        lines = Determined().get_trial(10).logs(follow=True, tail=1)
        assert texts("".join(lines)) == ["line 5", "line 3"]


def test_error_in_the_stream_fails_the_command(logged: FakeCluster, det: Det) -> None:
    error = {"httpCode": 404, "message": "trial '10' is gone"}
    logged.on("GET", r"/api/v1/trials/10/logs", lambda _: iter([{"error": error}]))
    result = det("t", "logs", 10)
    assert result.code == 3
    assert "trial '10' is gone" in result.err
