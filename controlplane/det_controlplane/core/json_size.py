"""Count the values of JSON before anything is made of them: each may take hundreds of bytes, from three in JSON."""

MOST_VALUES = 500_000
_FEW_BYTES = 1024 * 1024  # have no more values than that
_NO_MARKS = bytes(set(range(256)) - set(b'",[{'))


def has_too_many_values(raw: bytes) -> bool:
    return len(raw) > _FEW_BYTES and _values_in(raw) > MOST_VALUES


def _values_in(raw: bytes) -> int:
    """Return about how many values there are, by the marks between them."""
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") <= MOST_VALUES:
        return 0
    # Texts may have such marks, too: code in base64 has none, lines of a log many.
    marks = raw.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, delete=_NO_MARKS)
    quotes = marks.count(b'"')
    if quotes > 4 * MOST_VALUES:
        return quotes // 2
    return len(b"".join(marks.split(b'"')[::2]))
