"""Hash passwords before they leave the machine (docs/reference/compatibility.md#signing-in)."""

import hashlib
from typing import Optional

_SALT = "GubPEmmotfiK9TMD6Zdw"


def salted(password: str) -> str:
    """Return the digest that servers expect with `isHashed`. The empty password stays empty."""
    if not password:
        return ""
    return hashlib.sha512((_SALT + password).encode()).hexdigest()


def weakness(password: str) -> Optional[str]:
    """Return the reason why a new password is rejected, or None."""
    if len(password) < 8:
        return "a password needs at least 8 characters"
    missing = [
        name
        for name, present in (
            ("an upper-case letter", any(c.isupper() for c in password)),
            ("a lower-case letter", any(c.islower() for c in password)),
            ("a digit", any(c.isdigit() for c in password)),
        )
        if not present
    ]
    return f"a password needs {' and '.join(missing)}" if missing else None
