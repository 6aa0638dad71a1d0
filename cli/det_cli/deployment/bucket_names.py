"""Rules for bucket names. Clouds report an invalid name only when the bucket is created."""

import re

from det_cli.errors import UsageError

# The pattern and its description for each type of storage.
_FORMS = {
    "s3": (
        r"(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
        "lowercase letters, digits, hyphens and dots",
    ),
    "gcs": (
        r"(?!.*\.\.)[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]",
        "lowercase letters, digits, hyphens, dots and underscores",
    ),
}


def check(storage_type: str, name: str) -> None:
    """Raise UsageError for an invalid bucket name."""
    form, words = _FORMS[storage_type]
    if not re.fullmatch(form, name):
        raise UsageError(
            f"--var bucket={name} is not a valid bucket name",
            f"use 3 to 63 {words}, with a letter or digit at both ends",
        )
