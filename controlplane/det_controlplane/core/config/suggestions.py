"""Suggest the key that was probably meant by one that does not exist."""

from collections.abc import Iterable


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    import difflib

    names = sorted(allowed)
    close = difflib.get_close_matches(key, names, n=3, cutoff=0.6)
    if not close and len(key) > 3:
        close = [name for name in names if key.startswith(name) or name.startswith(key)]
    # People rarely mistype the first letter.
    best = min(close, key=lambda name: name[0] != key[0], default=None)
    guess = f"did you mean '{best}'? " if best else ""
    return f"is unknown; {guess}allowed here: {', '.join(names)}"
