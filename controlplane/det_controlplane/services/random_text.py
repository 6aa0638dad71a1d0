"""Random texts that cannot be guessed: tokens and first passwords."""

import secrets


def random_text(size: int = 32) -> str:
    """Return that many random bytes as a text that no command takes for an option."""
    text = secrets.token_urlsafe(size)
    return random_text(size) if text.startswith("-") else text
