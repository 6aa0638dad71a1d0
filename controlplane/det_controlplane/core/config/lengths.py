"""Training lengths: a number of batches, records or epochs, or a number in the user's own unit."""

from dataclasses import dataclass
from typing import Any, Literal

from det_controlplane.core.problems import shown

Unit = Literal["batches", "records", "epochs"]
_UNITS: tuple[Unit, ...] = ("batches", "records", "epochs")
_MOST = 2**53


class WrongUnits(ValueError):
    """The number of a unit is wrong. `unit` is the key of the number."""

    def __init__(self, unit: Unit, message: str) -> None:
        super().__init__(message)
        self.unit = unit


@dataclass(frozen=True, slots=True)
class Length:
    units: int
    unit: Unit | None = None  # None: the unit of the training code


def parse_length(raw: Any) -> Length:
    """Parse a training length: `1000` or `{batches: 1000}`, at least 1."""
    return _parse_length(raw, least=1)


def parse_period(raw: Any) -> Length:
    """Parse a period. 0 means that the action only happens when the search requests it."""
    return _parse_length(raw, least=0)


def length_json(length: Length) -> int | dict[str, int]:
    return length.units if length.unit is None else {length.unit: length.units}


def _parse_length(raw: Any, least: int) -> Length:
    if isinstance(raw, Length):
        return raw
    if not isinstance(raw, dict):
        number = _whole_number(raw, least)
        if number is None:
            example = "a number like 1000 or an object like {batches: 1000}"
            message = f"must be {example} with a whole number of at least {least}, not {shown(raw)}"
            raise ValueError(message)
        return Length(number)
    if len(raw) != 1 or next(iter(raw)) not in _UNITS:
        keys = ", ".join(map(repr, raw)) or "nothing"
        raise ValueError(f"must have exactly one of batches, records, epochs, not {keys}")
    unit = next(iter(raw))
    number = _whole_number(raw[unit], least)
    if number is None:
        message = f"must be a whole number of at least {least}, not {shown(raw[unit])}"
        raise WrongUnits(unit, message)
    return Length(number, unit)


def _whole_number(value: Any, least: int) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= _MOST or value != int(value):
        return None
    return int(value)
