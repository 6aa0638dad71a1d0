"""Unions of several kinds of objects, which differ in the value of a key."""

from collections.abc import Callable
from typing import Any

from pydantic import Discriminator, Tag

_MARK = "·"  # distinguishes a kind from a key in error paths


def tag(kind: str) -> Tag:
    return Tag(_MARK + kind)


def is_tag(part: str | int) -> bool:
    return isinstance(part, str) and part.startswith(_MARK)


def bare(part: str) -> str:
    return part.removeprefix(_MARK)


def discriminated_by(key: str) -> Discriminator:
    return Discriminator(
        _reader(key),
        custom_error_type="wrong_kind",
        custom_error_message="must say its kind",
        custom_error_context={"key": key},
    )


def _reader(key: str) -> Callable[[Any], str | None]:
    def kind(raw: Any) -> str | None:
        value = raw.get(key) if isinstance(raw, dict) else getattr(raw, key, None)
        return None if value is None else f"{_MARK}{value}"

    return kind
