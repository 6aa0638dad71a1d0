"""Read the numbers a search decides on from reported metrics."""

import math
import sys
from collections.abc import Collection, Mapping
from typing import Any

from .method import SearchFailed

WORST = sys.float_info.max  # what a failed trial counts as: after every number, before infinity
_LISTED = 20  # names of metrics in a sentence, at most
_SPELLED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def read_loss(metrics: Mapping[str, Any], name: str, sign: float, request_id: str) -> float:
    """Read the searcher metric as a loss: smaller is better, NaN is worst."""
    value = metrics.get(name)
    if type(value) is float:
        return value * sign if value == value else math.inf
    return as_loss(value, name, sign, request_id, metrics)


def as_loss(
    value: Any, name: str, sign: float, request_id: str, reported: Collection[str] = ()
) -> float:
    """Return a value as a loss: smaller is better, NaN is worst. It was reported beside others."""
    loss = _number(value, name, request_id, reported) * sign
    return math.inf if math.isnan(loss) else loss


def read_time(metrics: Mapping[str, Any], name: str, request_id: str) -> float:
    """Read the time metric of the same report; it must be a number."""
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
    found = "is missing" if value is None else f"is {value!r}, not a number"
    names = sorted(reported)
    listed = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
    all_of_them = f", which are {listed}" if names else ""
    raise SearchFailed(
        f"trial {request_id}: metric {name!r} {found} in its validation metrics{all_of_them}; "
        f"report it with every validation, or change searcher.metric or searcher.time_metric"
    )
