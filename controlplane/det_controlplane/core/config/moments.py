"""Read and write points in time as configurations have them, and durations as sentences have them."""

from datetime import datetime, timezone

_EXAMPLE = "2026-12-04T18:00Z"


def parse_moment(text: str) -> datetime:
    """Return the time of a text such as 2026-12-04T18:00Z. It needs a zone."""
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError as error:
        raise ValueError(f"must be a time such as {_EXAMPLE}, not {text!r}") from error
    if moment.tzinfo is None:
        raise ValueError(
            f"needs a time zone: {text!r} is another moment in each; write {_EXAMPLE} or +01:00"
        )
    return moment.astimezone(timezone.utc)


def format_moment(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_hours(hours: float) -> str:
    """Return a duration such as 21.5 h, 45 min or 20 s."""
    if hours >= 1:
        return f"{hours:.1f} h"
    seconds = hours * 3600
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
