"""Assertions that users import in model code. Each raises CheckFailedError with the values and the given reason."""

from typing import Any, Callable, Container, Optional, Sized, Tuple, Type, Union

Types = Union[Type[Any], Tuple[Type[Any], ...]]


class CheckFailedError(Exception):
    """A check failed."""


def _require(holds: bool, message: str, reason: Optional[str]) -> None:
    if not holds:
        raise CheckFailedError(f"CHECK FAILED! {message}" + (f": {reason}" if reason else ""))


def true(val: bool, reason: Optional[str] = None) -> None:
    _require(bool(val), f"Got {val}, expected True", reason)


def false(val: bool, reason: Optional[str] = None) -> None:
    _require(not val, f"Got {val}, expected False", reason)


def is_none(val: Optional[Any], reason: Optional[str] = None) -> None:
    _require(val is None, f"Got {val}, expected None", reason)


def is_not_none(val: Optional[Any], reason: Optional[str] = None) -> None:
    _require(val is not None, f"Got {val}, expected non-None", reason)


def eq(val: Any, expected: Any, reason: Optional[str] = None) -> None:
    _require(val == expected, f"Got {val}, expected {expected}", reason)


def not_eq(x: Any, y: Any, reason: Optional[str] = None) -> None:
    _require(x != y, f"Got {x}, expected another value than {y}", reason)


def gt(x: Any, y: Any, reason: Optional[str] = None) -> None:
    _require(x > y, f"Got {x}, expected value > {y}", reason)


def gt_eq(x: Any, y: Any, reason: Optional[str] = None) -> None:
    _require(x >= y, f"Got {x}, expected value >= {y}", reason)


def lt(x: Any, y: Any, reason: Optional[str] = None) -> None:
    _require(x < y, f"Got {x}, expected value < {y}", reason)


def lt_eq(x: Any, y: Any, reason: Optional[str] = None) -> None:
    _require(x <= y, f"Got {x}, expected value <= {y}", reason)


def equal_lengths(x: Sized, y: Sized, reason: Optional[str] = None) -> None:
    message = f"Expected lengths {len(x)} and {len(y)} to be equal; values: {x}, {y}"
    _require(len(x) == len(y), message, reason)


def len_eq(val: Sized, expected_len: int, reason: Optional[str] = None) -> None:
    message = f"Got length {len(val)}, expected length {expected_len}. Values: {val}"
    _require(len(val) == expected_len, message, reason)


def is_in(val: Any, expected: Container[Any], reason: Optional[str] = None) -> None:
    _require(val in expected, f"'{val}' is not in {expected}", reason)


def not_in(val: Any, expected: Container[Any], reason: Optional[str] = None) -> None:
    _require(val not in expected, f"'{val}' is in {expected}", reason)


def is_type(val: Any, expected: type, reason: Optional[str] = None) -> None:
    message = f"{val} has type {type(val)}, expected type {expected}"
    _require(type(val) is expected, message, reason)


def is_instance(val: Any, expected: Types, reason: Optional[str] = None) -> None:
    message = f"{val} has type {type(val)}, expected isinstance of {expected}"
    _require(isinstance(val, expected), message, reason)


def is_not_instance(val: Any, expected: Types, reason: Optional[str] = None) -> None:
    message = f"{val} has type {type(val)}, expected not isinstance of {expected}"
    _require(not isinstance(val, expected), message, reason)


def is_subclass(val: Any, expected: type, reason: Optional[str] = None) -> None:
    message = f"{val} has type {type(val)}, expected issubclass of {expected}"
    _require(issubclass(val, expected), message, reason)


# Older names of the same functions.
Check = Callable[..., None]
check_true: Check = true
check_false: Check = false
check_none: Check = is_none
check_not_none: Check = is_not_none
check_eq: Check = eq
check_not_eq: Check = not_eq
check_gt: Check = gt
check_gt_eq: Check = gt_eq
check_lt: Check = lt
check_lt_eq: Check = lt_eq
check_eq_len: Check = equal_lengths
check_len: Check = len_eq
check_in: Check = is_in
check_not_in: Check = not_in
check_type: Check = is_type
check_isinstance: Check = is_instance
check_not_isinstance: Check = is_not_instance
check_issubclass: Check = is_subclass
