"""Times as people read them: local, to the second."""

from datetime import datetime, timezone

_SECOND = 19  # characters of YYYY-MM-DDTHH:MM:SS


def parsed(text: str) -> datetime:
    """An RFC 3339 time; fractions of any length."""
    zone = text[_SECOND:].lstrip(".0123456789") or "Z"
    moment = datetime.fromisoformat(text[:_SECOND] + ("+00:00" if zone in "Zz" else zone))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def local(text: "str | None") -> str:
    if not text:
        return ""
    try:
        return parsed(text).astimezone().strftime("%Y-%m-%d %H:%M:%S%z")
    except ValueError:
        return text
