"""The options of an import."""

import re
from dataclasses import dataclass
from datetime import datetime

_LOGS = ("all", "errors", "none")
_SINCE = re.compile(r"since=(.+)")


class BadOption(Exception):
    """The message names the option and its values."""


@dataclass(frozen=True, slots=True)
class Logs:
    """The choice of the logs to import."""

    kind: str  # all, errors, none or since
    since: str = ""

    def __str__(self) -> str:
        return f"since={self.since}" if self.since else self.kind


@dataclass(frozen=True, slots=True)
class Options:
    logs: Logs = Logs("all")
    id_offset: int = 0  # the least; 0: as small as possible
    merge_users: bool = False
    default_pool: str = "default"
    name: str = ""  # of the import, for references such as old:NAME/17


def parse_logs(value: str) -> Logs:
    if value in _LOGS:
        return Logs(value)
    match = _SINCE.fullmatch(value)
    if match is None:
        raise BadOption(
            f"--logs {value}: give all, errors, none or since=DATE, such as since=2026-01-31"
        )
    try:
        datetime.fromisoformat(match[1])
    except ValueError:
        raise BadOption(f"--logs {value}: {match[1]} is no date, such as 2026-01-31") from None
    return Logs("since", match[1])
