"""Read request bodies: clients write names in camelCase or snake_case."""

from collections.abc import Mapping
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from det_controlplane.api.errors import BadRequest
from det_controlplane.core.numerals import LARGEST, whole
from det_controlplane.core.problems import shown

MOST_NAMED = 10_000  # things that a request names one by one


class Body:
    """A JSON object with typed access to its fields by their camelCase names."""

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self._values = values
        self.path = path

    def raw(self, name: str) -> Any:
        value = self._values.get(name)
        if value is not None or name.islower():
            return value
        return self._values.get(_snake(name))

    def has(self, name: str) -> bool:
        return name in self._values or _snake(name) in self._values

    def text(self, name: str, default: str | None = "") -> str:
        value = self.raw(name)
        if value is None:
            return default  # type: ignore[return-value]
        return str(self._typed(name, value, str, "a string"))

    def optional_text(self, name: str) -> str | None:
        value = self.raw(name)
        if value is None or isinstance(value, str):
            return value
        raise self._wrong(name, "a string", value)

    def integer(self, name: str, default: int | None = 0) -> int:
        value = self.raw(name)
        if value is None:
            return default  # type: ignore[return-value]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        # 64-bit numbers travel as strings.
        found = whole(value) if isinstance(value, str) else value
        if isinstance(found, bool) or not isinstance(found, int):
            raise self._wrong(name, "an integer", value)
        if abs(found) > LARGEST:
            raise self._wrong(name, "an integer of at most 64 bits", value)
        return found

    def optional_integer(self, name: str) -> int | None:
        return None if self.raw(name) is None else self.integer(name)

    def number(self, name: str) -> float | None:
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, str):
            try:
                return float(value)
            except ValueError as e:
                raise self._wrong(name, "a number", value) from e
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(name, "a number", value)
        try:
            return float(value)
        except OverflowError as e:
            raise self._wrong(name, "a number below 1.8e308", value) from e

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.raw(name)
        return default if value is None else bool(self._typed(name, value, bool, "true or false"))

    def object(self, name: str) -> dict[str, Any]:
        value = self.raw(name)
        return {} if value is None else dict(self._typed(name, value, dict, "an object"))

    def body(self, name: str) -> "Body":
        return Body(self.object(name), f"{self.path}{name}.")

    def items(self, name: str) -> list[Any]:
        value = self.raw(name)
        return [] if value is None else list(self._typed(name, value, list, "a list"))

    def integers(self, name: str) -> list[int]:
        self.refuse_more(name, MOST_NAMED)
        return [Body({name: item}, self.path).integer(name) for item in self.items(name)]

    def bodies(self, name: str) -> "list[Body]":
        items = self.items(name)
        for item in items:
            if not isinstance(item, dict):
                raise self._wrong(name, "a list of objects", item)
        return [Body(item, f"{self.path}{name}[{i}].") for i, item in enumerate(items)]

    def refuse_more(self, name: str, most: int) -> None:
        """Refuse a list that names more things than one statement should look for."""
        if len(self.items(name)) > most:
            raise BadRequest(
                f"{self.path}{name} has more than {most} entries: send the rest separately"
            )

    def time(self, name: str) -> datetime | None:
        value = self.optional_text(name)
        if not value:
            return None
        return parse_time(value, f"{self.path}{name}")

    def required_text(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise BadRequest(f"{self.path}{name} is required")
        return value

    def _typed(self, name: str, value: Any, kind: type, what: str) -> Any:
        if not isinstance(value, kind):
            raise self._wrong(name, what, value)
        return value

    def _wrong(self, name: str, what: str, value: Any) -> BadRequest:
        return BadRequest(f"{self.path}{name} must be {what}, not {shown(value)}")


def parse_time(value: str, what: str) -> datetime:
    """Parse a time of RFC 3339, which may have more digits than Python keeps."""
    text = value.replace("Z", "+00:00").replace("z", "+00:00")
    if "." in text:
        head, _, tail = text.partition(".")
        digits = len(tail) - len(tail.lstrip("0123456789"))
        text = f"{head}.{tail[:digits][:6].ljust(6, '0')}{tail[digits:]}"
    try:
        found = datetime.fromisoformat(text)
        found = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
        found.astimezone(timezone.utc)  # PostgreSQL cannot store dates outside its calendar
    except (ValueError, OverflowError) as e:
        form = "a time like 2026-11-20T12:00:00Z (RFC 3339)"
        raise BadRequest(f"{what} must be {form}, not {value!r}") from e
    return found


@lru_cache(maxsize=1024)
def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
