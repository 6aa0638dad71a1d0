"""Log lines as JSON objects, one on each line, for the hosts of the control plane and for agents.

Each line has `time`, `level`, `logger` and `message`. Ids come from the context of the work, such as a request, and
from `extra` of the log call."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from datetime import datetime, timezone

VARIABLE = "DET_LOG_FORMAT"
JSON, TEXT = "json", "text"
FORMATS = (JSON, TEXT)
# The ids of a line. A log call can pass them in `extra`.
IDS = (
    "request_id", "trace_id", "experiment_id", "trial_id", "task_id", "allocation_id", "container_id",
    "agent_id", "machine_id", "pool",
)  # fmt: skip
Ids = Callable[[], Mapping[str, object]]


def _no_ids() -> Mapping[str, object]:
    return {}


# A function, so that work without log lines does not build its ids.
_current: ContextVar[Ids] = ContextVar("ids of log lines", default=_no_ids)


def enter_ids(ids: Ids) -> Token[Ids]:
    """Use these ids for the lines of this context until `leave_ids`."""
    return _current.set(ids)


def leave_ids(token: Token[Ids]) -> None:
    _current.reset(token)


@contextmanager
def log_ids(**ids: object) -> Iterator[None]:
    """Add ids to the lines of a block."""
    outer = _current.get()
    token = _current.set(lambda: {**outer(), **ids})
    try:
        yield
    finally:
        _current.reset(token)


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object, for Google's Cloud Logging also with `severity`."""

    def __init__(
        self, ids: Mapping[str, object] | None = None, *, severity: bool = False, project: str = ""
    ) -> None:
        """Make a formatter. `ids` are the ids of the process; `project` is the Google Cloud project of its traces."""
        super().__init__()
        self._ids = dict(ids or {})
        self._has_severity = severity
        self._project = project

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc)
        line: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._has_severity:
            line["severity"] = record.levelname
        line |= self._ids | _ids_of(record)
        if self._project and line.get("trace_id"):
            line["logging.googleapis.com/trace"] = (
                f"projects/{self._project}/traces/{line['trace_id']}"
            )
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(line, ensure_ascii=False, default=str)


def _ids_of(record: logging.LogRecord) -> dict[str, object]:
    ids = dict(_current.get()())
    for name in IDS:
        value = getattr(record, name, None)
        if value is not None:
            ids[name] = value
    return {name: value for name, value in ids.items() if value not in ("", None)}
