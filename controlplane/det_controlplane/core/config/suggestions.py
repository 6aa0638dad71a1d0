"""Suggest an existing key for an unknown key."""

from collections.abc import Iterable, Iterator, Sequence


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    names = sorted(allowed)
    return f"is unknown; {_guess(key, names)}allowed here: {', '.join(names)}"


def unknown_keys(keys: Sequence[str], allowed: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each key with its message. Only the last message lists the allowed keys."""
    names = sorted(allowed)
    for key in keys[:-1]:
        yield key, f"is unknown; {_guess(key, names)}".rstrip("; ")
    for key in keys[-1:]:
        yield key, unknown_key(key, names)


def _guess(key: str, names: Sequence[str]) -> str:
    import difflib

    close = difflib.get_close_matches(key, names, n=3, cutoff=0.6)
    if not close and len(key) > 3:
        close = [name for name in names if key.startswith(name) or name.startswith(key)]
    # Typing errors in the first letter are rare.
    best = min(close, key=lambda name: name[0] != key[0], default=None)
    return f"did you mean '{best}'? " if best else ""
