"""Log lines as JSON objects."""

import json
import logging
from typing import Any

import pytest
from det_controlplane.core.json_log import JsonLines, enter_ids, leave_ids, log_ids
from det_controlplane.entry.logs import format_lambda_log, log_to_stderr
from det_controlplane.entry.settings import BadSettings


def line(formatter: JsonLines, message: str = "hello %s", **extra: Any) -> dict[str, Any]:
    record = logging.LogRecord("det.api", logging.WARNING, __file__, 1, message, ("x",), None)
    record.__dict__.update(extra)
    text = formatter.format(record)
    assert "\n" not in text
    result: dict[str, Any] = json.loads(text)
    return result


def test_line_has_time_level_logger_and_message() -> None:
    entry = line(JsonLines())
    assert entry.pop("time").endswith("Z")
    assert entry == {"level": "WARNING", "logger": "det.api", "message": "hello x"}


def test_line_has_the_ids_of_its_context_and_of_its_call() -> None:
    with log_ids(pool="a"), log_ids(machine_id="m"):
        entry = line(JsonLines({"agent_id": "g"}), experiment_id=3)
    ids = {"pool": "a", "machine_id": "m", "agent_id": "g", "experiment_id": 3}
    assert ids.items() <= entry.items()
    assert "pool" not in line(JsonLines())


def test_ids_of_a_context_are_built_only_for_lines() -> None:
    calls: list[int] = []

    def ids() -> dict[str, object]:
        calls.append(1)
        return {"request_id": "r", "trial_id": None}

    token = enter_ids(ids)
    try:
        assert not calls
        entry = line(JsonLines())
    finally:
        leave_ids(token)
    assert entry["request_id"] == "r"
    assert "trial_id" not in entry


def test_exception_is_a_field_of_the_line() -> None:
    try:
        raise ValueError("no\nway")
    except ValueError as e:
        entry = line(JsonLines(), exc_info=(type(e), e, e.__traceback__))
    assert "ValueError: no\nway" in entry["exception"]


def test_google_reads_severity_and_trace() -> None:
    with log_ids(trace_id="0af7"):
        entry = line(JsonLines(severity=True, project="team"))
    assert entry["severity"] == "WARNING"
    assert entry["logging.googleapis.com/trace"] == "projects/team/traces/0af7"


@pytest.fixture
def handler() -> Any:
    """Return the only handler of the root logger, as a new process has it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    own = logging.StreamHandler()
    root.handlers[:] = [own]
    yield own
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize(
    ("environment", "is_json"),
    [
        ({}, False),
        ({"DET_LOG_FORMAT": "json"}, True),
        ({"K_SERVICE": "api"}, True),
        ({"K_SERVICE": "api", "DET_LOG_FORMAT": "text"}, False),
    ],
)
def test_host_and_variable_choose_the_format_of_a_server(
    environment: dict[str, str], is_json: bool, handler: logging.Handler
) -> None:
    log_to_stderr(environment)
    assert isinstance(handler.formatter, JsonLines) is is_json


@pytest.mark.parametrize(
    ("environment", "is_json"),
    [
        ({"AWS_LAMBDA_FUNCTION_NAME": "api"}, True),
        ({"AWS_LAMBDA_FUNCTION_NAME": "api", "DET_LOG_FORMAT": "text"}, False),
        ({}, False),
    ],
)
def test_lambda_writes_json_by_default(
    environment: dict[str, str], is_json: bool, handler: logging.Handler
) -> None:
    format_lambda_log(environment)
    assert isinstance(handler.formatter, JsonLines) is is_json


def test_unknown_format_is_refused_by_its_name(handler: logging.Handler) -> None:
    with pytest.raises(BadSettings, match="DET_LOG_FORMAT is 'xml': give json or text"):
        log_to_stderr({"DET_LOG_FORMAT": "xml"})
