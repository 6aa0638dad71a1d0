"""Convert lines of containers and of the agent to the format that the control plane stores."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from det_controlplane.core import documents, patterns

from det_agent.runtime import ContainerKey

# Containers send the public API's camelCase or snake_case. The agent protocol has snake_case.
_FIELDS = {
    "taskId": "task_id",
    "allocationId": "allocation_id",
    "agentId": "agent_id",
    "containerId": "container_id",
    "rankId": "rank_id",
    "timestamp": "timestamp",
    "level": "level",
    "log": "log",
    "source": "source",
    "stdtype": "stdtype",
}
_SNAKE = frozenset(_FIELDS.values())
_LONGEST_FIELD, _LARGEST_RANK = 1000, 2**31 - 1
_TOO_MANY = f"more than {patterns.MOST_LINES} lines in one request: send fewer at a time"
_LEVELS = frozenset({"TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "UNSPECIFIED"})


class BadTaskLogs(Exception):
    """The body is not a list of task logs, or it contains lines of another task."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def now_rfc3339() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class TaskLine:
    """An encoded line of a container, and its text, which was not searched for patterns yet."""

    encoded: bytes
    text: str

    def timestamp(self) -> str:
        return str(json.loads(self.encoded).get("timestamp", ""))

    def with_matched(self, matching: Sequence[str]) -> bytes:
        """Return the encoded line with the patterns that match it."""
        if not matching:
            return self.encoded
        matched = json.dumps(matching, separators=(",", ":")).encode()
        return b'%s,"matched":%s}' % (self.encoded[:-1], matched)


def posted_lines(body: bytes, key: ContainerKey, agent_id: str) -> list[TaskLine]:
    """Parse a body of `POST /api/v1/task/logs` (an object) or `POST /task-logs` (an array)."""
    if documents.has_too_many_values(body):
        raise BadTaskLogs(400, _TOO_MANY)
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        raise BadTaskLogs(400, "the body is not JSON") from None
    entries = parsed.get("logs") if isinstance(parsed, dict) else parsed
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise BadTaskLogs(400, 'the body must be {"logs": [...]} or a list of task logs')
    if len(entries) > patterns.MOST_LINES:
        raise BadTaskLogs(400, _TOO_MANY)
    return [_line(_complete_line(entry, key, agent_id)) for entry in entries]


def agent_line(
    key: ContainerKey, agent_id: str, text: str, level: str = "INFO", timestamp: str = ""
) -> bytes:
    """Return a line of the agent about a container: pulling, starting or failing. Its time is now by default."""
    line = _line(
        {
            **_identity(key, agent_id),
            "timestamp": timestamp or now_rfc3339(),
            "level": f"LOG_LEVEL_{level}",
            "log": text,
            "source": "agent",
        }
    )
    return line.with_matched([p for p in key.log_patterns if patterns.matches(p, line.text)])


def output_line(
    key: ContainerKey, agent_id: str, text: str, stdtype: str, timestamp: str
) -> TaskLine:
    """Return a line that a container wrote to stdout or stderr."""
    return _line(
        {
            **_identity(key, agent_id),
            "timestamp": timestamp,
            "log": text,
            "source": "task",
            "stdtype": stdtype,
        }
    )


def _identity(key: ContainerKey, agent_id: str) -> dict[str, str]:
    return {
        "task_id": key.task_id,
        "allocation_id": key.allocation_id,
        "agent_id": agent_id,
        "container_id": key.id,
    }


def _complete_line(entry: Mapping[str, Any], key: ContainerKey, agent_id: str) -> dict[str, Any]:
    line = {
        _FIELDS.get(name, name): value
        for name, value in entry.items()
        if value is not None and (name in _FIELDS or name in _SNAKE)
    }
    if line.get("task_id", key.task_id) != key.task_id:
        raise BadTaskLogs(403, f"this container may only write logs of task {key.task_id}")
    line = {**_identity(key, agent_id), "timestamp": now_rfc3339(), **line}
    level = str(line.get("level", "")).upper().removeprefix("LOG_LEVEL_")
    if level in _LEVELS:
        line["level"] = f"LOG_LEVEL_{level}"
    else:
        line.pop("level", None)
    _check_values(line)
    return line


def _check_values(line: Mapping[str, Any]) -> None:
    """Reject values that the control plane cannot store. They would be sent together with lines of other containers."""
    for name, value in line.items():
        if name == "rank_id":
            is_rank = isinstance(value, int) and not isinstance(value, bool)
            if not is_rank or not 0 <= value <= _LARGEST_RANK:
                raise BadTaskLogs(400, "rank_id of a line must be a whole number")
        elif not isinstance(value, str):
            raise BadTaskLogs(400, f"{name} of a line must be a text")
        elif name != "log" and len(value) > _LONGEST_FIELD:
            raise BadTaskLogs(400, f"{name} of a line has more than {_LONGEST_FIELD} characters")


def _line(line: Mapping[str, Any]) -> TaskLine:
    text = str(line.get("log") or "")
    if len(text) > patterns.LONGEST_LINE:
        text = text[: patterns.LONGEST_LINE]
        line = {**line, "log": text}
    return TaskLine(json.dumps(line, separators=(",", ":")).encode(), text)
