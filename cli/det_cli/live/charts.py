"""Small charts of block characters, and short texts for numbers and times."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from determined.common.times import parsed

Points = Sequence[tuple[float, float]]
_LEVELS = "▁▂▃▄▅▆▇█"
_MANY = 20
_FAR = 3.0  # widths of the middle half


def number(value: object) -> "float | None":
    """Return a number from an API response. The API sends NaN and infinity as strings."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def short(value: "float | None") -> str:
    return "" if value is None else f"{value:.4g}"


def bounds(values: Iterable[float]) -> tuple[float, float]:
    """Return the value range of a chart. Outliers do not count, because they would flatten all other curves.

    Outliers are far from the middle half of the values, compared with its width."""
    finite = sorted(value for value in values if math.isfinite(value))
    if not finite:
        return 0.0, 0.0
    if len(finite) < _MANY:
        return finite[0], finite[-1]
    first, third = finite[len(finite) // 4], finite[3 * len(finite) // 4]
    far = _FAR * (third - first) or math.inf
    near = [value for value in finite if first - far <= value <= third + far]
    return near[0], near[-1]


def curve(points: Points, longest: float, between: tuple[float, float], room: int) -> str:
    """Draw a curve on an axis from 0 to `longest`. Columns between two points repeat the earlier level."""
    if not points or longest <= 0 or room <= 0:
        return ""
    marks: dict[int, list[float]] = {}
    for at, value in points:
        place = math.ceil(min(max(at / longest, 0.0), 1.0) * room) - 1
        marks.setdefault(max(place, 0), []).append(value)
    out, last = [], _level(marks[min(marks)], between)
    for place in range(max(marks) + 1):
        if place in marks:
            last = _level(marks[place], between)
        out.append(last)
    return "".join(out)


def sparkline(values: Sequence[float], room: int) -> str:
    """Draw one column per value, at most `room` columns."""
    points = [(float(i + 1), value) for i, value in enumerate(values)]
    room = min(room, len(points))
    return curve(points, float(len(points)), bounds(values), room)


def _level(values: Sequence[float], between: tuple[float, float]) -> str:
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return "×"
    low, high = between
    if not high > low:
        return _LEVELS[3]
    mean = sum(value / len(finite) for value in finite)
    share = mean / (high - low) - low / (high - low)
    share = share if math.isfinite(share) else 1.0
    return _LEVELS[min(max(round(share * 7), 0), 7)]


def bar(share: float, room: int) -> str:
    """Draw a progress bar for a share from 0 to 1."""
    share = min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    done = int(share * room)
    return "█" * done + "░" * (room - done)


def span(seconds: float) -> str:
    """Return a duration with its two largest units."""
    rest = max(int(seconds), 0)
    days, rest = divmod(rest, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {rest:02}s" if minutes else f"{rest}s"


def moment(text: "str | None") -> "float | None":
    """Return a time from an API response as seconds since 1970."""
    try:
        return parsed(text).timestamp() if text else None
    except (ValueError, OverflowError):
        return None


def clock(now: float) -> str:
    return datetime.fromtimestamp(now).strftime("%H:%M:%S")


def money(usd: float) -> str:
    return f"${usd:,.2f}" if usd >= 0.01 or usd == 0 else f"${usd:.4f}"
