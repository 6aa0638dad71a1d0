"""Hyperparameter values for a trial that runs without a searcher."""

from typing import Any, Dict, Mapping


def example(space: Mapping[str, Any]) -> Dict[str, Any]:
    """Choose a value for each hyperparameter. Values lie inside their ranges and do not change between calls."""
    return {name: _value(spec) for name, spec in space.items()}


def _value(spec: Any) -> Any:
    if not isinstance(spec, Mapping):
        return spec
    kind = spec.get("type")
    if kind is None:
        return example(spec)
    if kind == "const":
        return spec["val"]
    if kind == "categorical":
        return spec["vals"][0]
    if kind == "int":
        return int(spec["minval"])
    if kind == "double":
        return (float(spec["minval"]) + float(spec["maxval"])) / 2
    if kind == "log":
        middle = (float(spec["minval"]) + float(spec["maxval"])) / 2
        return float(spec.get("base", 10.0)) ** middle
    raise ValueError(
        f"hyperparameter type {kind!r} is not known: use const, int, double, log or categorical"
    )
