"""Read the numbers that a search needs from reported metrics."""

import math
import sys
from collections.abc import Collection, Mapping
from typing import Any

from .method import SearchFailed

WORST = (
    sys.float_info.max
)  # the loss of a failed trial: worse than every number, better than infinity
_LISTED = 20  # metric names in a message
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
    fault = "is missing" if value is None else f"is {value!r}, not a number"
    names = sorted(reported)
    name_list = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
    others = f", which are {name_list}" if names else ""
    raise SearchFailed(
        f"trial {request_id}: metric {name!r} {fault} in its validation metrics{others}; "
        f"report it with every validation, or change searcher.metric or searcher.time_metric"
    )
