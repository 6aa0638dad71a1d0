"""Parse sizes ("4g", "1.5 GiB") and durations ("10m", "1h30m")."""

import re

_BYTES = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([kmgtp])(?:i?b)?|b)?\s*", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_bytes(text: str) -> int:
    """Parse a size in Docker's syntax. Units are powers of 1024."""
    match = _BYTES.fullmatch(text)
    if match is None:
        raise ValueError(f"must be a number of bytes or a size like 4g or '1.5 GiB', not {text!r}")
    return int(float(match[1]) * 1024 ** _POWER[(match[2] or "").lower()])


def seconds_of(value: object) -> object:
    """Return the seconds of a duration that is text. Other values are returned as they are."""
    return parse_duration_s(value) if isinstance(value, str) else value


def parse_duration_s(text: str) -> float:
    """Parse a duration such as 25s, 10m or 1h30m. Return seconds."""
    parts = _DURATION.findall(text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise ValueError(
            f"must be a number of seconds or a duration like 25s, 10m or 1h30m, not {text!r}"
        )
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
