"""Count the values of a JSON text before it is parsed. A value of three bytes may take hundreds of bytes of memory."""

MOST_VALUES = 500_000
_FEW_BYTES = 1024 * 1024  # a shorter text cannot have more values than the limit
_NO_MARKS = bytes(set(range(256)) - set(b'",[{'))


def has_too_many_values(raw: bytes) -> bool:
    return len(raw) > _FEW_BYTES and _values_in(raw) > MOST_VALUES


def _values_in(raw: bytes) -> int:
    """Return the approximate number of values, or 0 if it is within the limit."""
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") <= MOST_VALUES:
        return 0
    # Log lines in strings contain many of these marks. Count only the marks outside of strings.
    marks = raw.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, delete=_NO_MARKS)
    quotes = marks.count(b'"')
    if quotes > 4 * MOST_VALUES:
        return quotes // 2
    return len(b"".join(marks.split(b'"')[::2]))
