"""Read an object key by key, suggest existing keys for unknown ones, and collect all problems.

The cluster configuration is read this way because every cold start reads it. Building models would take longer than the
rest of the request.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from det_controlplane.core.config.sizes import parse_bytes, parse_duration_s
from det_controlplane.core.problems import Problem, shown


class Reader:
    """An object of a document. `close` reports the keys that were never read."""

    def __init__(self, raw: Any, path: str, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        self._known: set[str] = set()
        self._raw: Mapping[str, Any] = {}
        if isinstance(raw, Mapping):
            self._raw = raw
        elif raw is not None:
            self.refuse("", f"must be an object, not {shown(raw)}")

    def refuse(self, key: str, message: str) -> None:
        path = f"{self.path}.{key}" if self.path and key else self.path or key
        self.problems.append(Problem(path, message))

    def gives(self, *keys: str) -> bool:
        self._known.update(keys)
        return any(self._raw.get(key) is not None for key in keys)

    def raw(self, key: str, *aliases: str) -> Any:
        """Return the raw value under its name or an alias, or None."""
        self._known.update((key, *aliases))
        return next((self._raw[k] for k in (key, *aliases) if self._raw.get(k) is not None), None)

    def text(self, key: str, default: str, *aliases: str) -> str:
        value = self.raw(key, *aliases)
        if value is None or isinstance(value, str):
            return default if value is None else value
        self.refuse(key, f"must be text, not {shown(value)}")
        return default

    def text_or_none(self, key: str) -> str | None:
        return None if self.raw(key) is None else self.text(key, "")

    def choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        value = self.raw(key)
        if value is None or (isinstance(value, str) and value in choices):
            return default if value is None else value
        self.refuse(key, f"must be one of {', '.join(choices)}, not {shown(value)}")
        return default

    def flag(self, key: str, default: bool) -> bool:
        value = self.raw(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.refuse(key, f"must be true or false, not {shown(value)}")
        return default

    def whole(self, key: str, default: int, least: int, most: int, *aliases: str) -> int:
        value = self.raw(key, *aliases)
        if value is None:
            return default
        if _is_number(value) and least <= value <= most and value == int(value):
            return int(value)
        self.refuse(key, f"must be a whole number from {least} to {most}, not {shown(value)}")
        return default

    def wholes(self, key: str, least: int, most: int) -> list[int]:
        """Read a list of whole numbers. A missing list is empty."""
        value = self.raw(key) or []
        if isinstance(value, list | tuple) and all(
            _is_number(n) and least <= n <= most and n == int(n) for n in value
        ):
            return [int(n) for n in value]
        self.refuse(key, f"must be a list of whole numbers from {least} to {most}")
        return []

    def size(self, key: str, default: int) -> int:
        """Read a number of bytes, or a size such as 4g."""
        value = self.raw(key)
        try:
            amount = parse_bytes(value) if isinstance(value, str) else value
        except ValueError as error:
            self.refuse(key, str(error))
            return default
        if amount is None:
            return default
        if _is_number(amount) and 1 <= amount <= 2**53:
            return int(amount)
        self.refuse(key, f"must be a number of bytes or a size like 4g, not {shown(value)}")
        return default

    def seconds(self, key: str, default: float | None) -> float | None:
        """Read a duration: a number of seconds, or text such as 25s, 10m, 1h30m."""
        value = self.raw(key)
        try:
            amount = parse_duration_s(value) if isinstance(value, str) else value
        except ValueError as error:
            self.refuse(key, str(error))
            return default
        if amount is None:
            return default
        if _is_number(amount) and 0 <= amount <= 10 * 365 * 86400:
            return float(amount)
        self.refuse(
            key, f"must be a duration like 25s or 10m of up to ten years, not {shown(value)}"
        )
        return default

    def texts(self, key: str, *aliases: str) -> tuple[str, ...]:
        """Read a list of texts. A single text is a list of one, and a missing list is empty."""
        value = self.raw(key, *aliases)
        items = [value] if isinstance(value, str) else value or []
        if isinstance(items, list | tuple) and all(isinstance(item, str) for item in items):
            return tuple(items)
        self.refuse(
            self.name_of(key, *aliases), f"must be text or a list of it, not {shown(value)}"
        )
        return ()

    def dollars(self, key: str) -> Decimal | None:
        """Read an amount of money, which may be a number or text."""
        value = self.raw(key)
        if value is None:
            return None
        try:
            amount = Decimal(str(value))
        except InvalidOperation:
            amount = Decimal("NaN")
        if amount.is_finite() and 0 <= amount <= 10**9 and not isinstance(value, bool):
            return amount
        self.refuse(key, f"must be an amount of dollars, 0 or more, not {shown(value)}")
        return None

    def name_of(self, key: str, *aliases: str) -> str:
        """Return the name under which the document has the value."""
        return next((k for k in (key, *aliases) if self._raw.get(k) is not None), key)

    def content(self) -> dict[str, Any]:
        """Return the raw object."""
        return {str(key): value for key, value in self._raw.items()}

    def section(self, key: str) -> "Reader":
        return Reader(self.raw(key), f"{self.path}.{key}" if self.path else key, self.problems)

    def items(self, key: str) -> list["Reader"]:
        value = self.raw(key)
        if value is None:
            return []
        path = f"{self.path}.{key}" if self.path else key
        if not isinstance(value, list | tuple):
            self.refuse(key, f"must be a list, not {shown(value)}")
            return []
        return [Reader(item, f"{path}[{i}]", self.problems) for i, item in enumerate(value)]

    def object(self, key: str) -> dict[str, Any]:
        """Return an object with unchecked keys."""
        value = self.raw(key)
        if value is None or isinstance(value, Mapping):
            return dict(value or {})
        self.refuse(key, f"must be an object, not {shown(value)}")
        return {}

    def ignore(self, *keys: str) -> list[str]:
        """Accept keys that have no effect here. Return the paths of the present ones."""
        self._known.update(keys)
        return [f"{self.path}.{k}" if self.path else k for k in keys if self.gives(k)]

    def close(self) -> None:
        unknown = [str(key) for key in self._raw if key not in self._known]
        for key, message in _unknown_keys(unknown, self._known):
            self.refuse(key, message)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    names = sorted(allowed)
    return f"is unknown; {_guess_key(key, names)}allowed here: {', '.join(names)}"


def _unknown_keys(keys: Sequence[str], allowed: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each key with its message. Only the last message lists the allowed keys."""
    names = sorted(allowed)
    for key in keys[:-1]:
        yield key, f"is unknown; {_guess_key(key, names)}".rstrip("; ")
    for key in keys[-1:]:
        yield key, unknown_key(key, names)


def _guess_key(key: str, names: Sequence[str]) -> str:
    import difflib

    close = difflib.get_close_matches(key, names, n=3, cutoff=0.6)
    if not close and len(key) > 3:
        close = [name for name in names if key.startswith(name) or name.startswith(key)]
    # Typing errors in the first letter are rare.
    best = min(close, key=lambda name: name[0] != key[0], default=None)
    return f"did you mean '{best}'? " if best else ""
