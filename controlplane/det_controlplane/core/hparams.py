"""The hyperparameter space: what may be sampled, and how it is written down."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union


@dataclass(frozen=True, slots=True)
class Const:
    val: Any


@dataclass(frozen=True, slots=True)
class Int:
    minval: int
    maxval: int  # inclusive
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Double:
    minval: float
    maxval: float
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Log:
    minval: float  # exponents
    maxval: float
    base: float
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Categorical:
    vals: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Nested:
    members: Mapping[str, "HParam"]


HParam = Union[Const, Int, Double, Log, Categorical, Nested]
Space = Mapping[str, HParam]
