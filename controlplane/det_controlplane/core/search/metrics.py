"""Read the numbers that a search needs from reported metrics."""

import math
import sys
from collections.abc import Collection, Mapping
from typing import Any

from .method import SearchFailed

WORST = (
    sys.float_info.max
)  # the loss of a failed trial: worse than every number, better than infinity
LISTED_METRICS = 20  # metric names in a message
_SPELLED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def read_loss(metrics: Mapping[str, Any], name: str, sign: float, request_id: str) -> float:
    """Return the searcher metric as a loss: smaller is better, and NaN becomes infinity."""
    value = metrics.get(name)
    if type(value) is float:
        return value * sign if value == value else math.inf
    return as_loss(value, name, sign, request_id, metrics)


def as_loss(
    value: Any, name: str, sign: float, request_id: str, reported: Collection[str] = ()
) -> float:
    """Return a value as a loss: smaller is better, and NaN becomes infinity. `reported` are all names of the report."""
    loss = _number(value, name, request_id, reported) * sign
    return math.inf if math.isnan(loss) else loss


def read_time(metrics: Mapping[str, Any], name: str, request_id: str) -> float:
    """Return the time metric of the same report. Raises SearchFailed if it is not a number."""
    value = metrics.get(name)
    if type(value) is int:
        return value
    time = _number(value, name, request_id, metrics)
    if math.isnan(time):
        raise SearchFailed(
            f"trial {request_id}: time metric {name!r} is NaN; report how far training has come"
        )
    return time


def _number(value: Any, name: str, request_id: str, reported: Collection[str]) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value in _SPELLED:
        return _SPELLED[value]
    if value is None:
        raise SearchFailed(f"trial {request_id}: {not_reported(name, reported)}")
    raise SearchFailed(
        f"trial {request_id}: metric {name!r} is {value!r}; report a number with every validation"
    )


def not_reported(name: str, reported: Collection[str]) -> str:
    """Return the message for a metric of the searcher that a trial did not report."""
    import difflib  # only failures need it

    names = sorted(reported)
    name_list = ", ".join(names[:LISTED_METRICS]) + (", …" if len(names) > LISTED_METRICS else "")
    similar = difflib.get_close_matches(name, names, n=1)
    guess = f"; did you mean {similar[0]!r}?" if similar else ";"
    return (
        f"metric {name!r} was not reported; reported: {name_list or 'none'}{guess} "
        f"report it with every validation, or change searcher.metric or searcher.time_metric"
    )
