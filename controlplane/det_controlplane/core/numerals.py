"""Numbers as clients write them in text."""

LARGEST = 2**63 - 1


def whole(text: str) -> int | None:
    """Return the integer that a text is, if PostgreSQL can hold it; `isdigit` alone also takes '²' and endless ones."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        return None
    value = int(text)
    return value if abs(value) <= LARGEST else None
