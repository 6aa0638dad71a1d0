"""How long to train: a number of batches, records or epochs, or of the user's own unit."""

from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["batches", "records", "epochs"]
_UNITS: tuple[Unit, ...] = ("batches", "records", "epochs")
_MOST = 2**53


@dataclass(frozen=True, slots=True)
class Length:
    units: int
    unit: Unit | None = None  # None: whatever the training code counts


def parse_length(raw: Any) -> Length:
    """A training length: `1000` or `{batches: 1000}`, at least 1."""
    return _parsed(raw, least=1)


def parse_period(raw: Any) -> Length:
    """How often something happens; 0 means only where the search asks for it."""
    return _parsed(raw, least=0)


def length_json(length: Length) -> int | dict[str, int]:
    return length.units if length.unit is None else {length.unit: length.units}


def _parsed(raw: Any, least: int) -> Length:
    if isinstance(raw, Length):
        return raw
    if not isinstance(raw, dict):
        return Length(_number(raw, least))
    if len(raw) != 1 or next(iter(raw)) not in _UNITS:
        given = ", ".join(map(repr, raw)) or "nothing"
        raise ValueError(f"must have exactly one of batches, records, epochs, not {given}")
    unit = next(iter(raw))
    return Length(_number(raw[unit], least), unit)


def _number(value: Any, least: int) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= _MOST or value != int(value):
        example = "a number like 1000 or an object like {batches: 1000}"
        raise ValueError(
            f"must be {example} with a whole number of at least {least}, not {value!r}"
        )
    return int(value)
