"""Parse integers that clients write as text."""

LARGEST = 2**63 - 1


def whole(text: str) -> int | None:
    """Return the integer if PostgreSQL can store it, or None. `isdigit` alone would accept '²' and any length."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        return None
    value = int(text)
    return value if abs(value) <= LARGEST else None
