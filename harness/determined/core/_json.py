"""JSON for metrics. Array scalars become numbers; values without a JSON form become strings."""

import json
import math
from typing import Any


def encode(body: Any) -> bytes:
    """Encode a value. Non-finite numbers become "NaN", "Infinity" and "-Infinity", which takes a slower path."""
    try:
        return json.dumps(body, default=_plain, allow_nan=False).encode()
    except ValueError:
        return json.dumps(_finite(body), allow_nan=False).encode()


def _plain(value: Any) -> Any:
    """Convert arrays and tensors, dates and sets to plain values, without importing their libraries."""
    for convert in ("tolist", "item", "isoformat"):
        method = getattr(value, convert, None)
        if callable(method):
            return method()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    kind = f"{type(value).__module__}.{type(value).__name__}"
    raise TypeError(
        f"a value of type {kind} cannot be reported; convert it to a number or a string"
    )


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return "NaN"
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return _finite(_plain(value))
