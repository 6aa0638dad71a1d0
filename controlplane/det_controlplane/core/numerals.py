"""Parse integers and durations that clients write as text."""

import re
from datetime import timedelta

LARGEST = 2**63 - 1


def whole(text: str) -> int | None:
    """Return the integer if PostgreSQL can store it, or None. `isdigit` alone would accept '²' and any length."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        return None
    value = int(text)
    return value if abs(value) <= LARGEST else None


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


LONGEST_DURATION = timedelta(days=100_000)


def parse_duration(value: str) -> timedelta | None:
    """Return the duration, or None if the text is not a duration or exceeds `LONGEST`."""
    seconds = _seconds(value)
    return None if seconds is None or is_too_long(value) else timedelta(seconds=seconds)


def is_too_long(value: str) -> bool:
    """Return whether a text is a duration that exceeds `LONGEST`."""
    seconds = _seconds(value)
    return seconds is not None and seconds > LONGEST_DURATION.total_seconds()


def _seconds(value: str) -> float | None:
    text = value.strip()
    if not text or _PART.sub("", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def shown_duration(seconds: float) -> str:
    """Return a duration for people, such as `5m` or `1h30m`."""
    if seconds < 1:
        return f"{seconds:g}s"
    rest, parts = round(seconds), []
    for unit, length in (("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, length)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts)
