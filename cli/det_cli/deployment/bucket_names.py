"""The names that buckets may have, which clouds tell only when a bucket is made."""

import re

from det_cli.errors import UsageError

# By the type of storage: what the cloud takes, and how it says so.
_FORMS = {
    "s3": (
        r"(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
        "small letters, digits, hyphens and dots",
    ),
    "gcs": (
        r"(?!.*\.\.)[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]",
        "small letters, digits, hyphens, dots and underscores",
    ),
}


def check(storage_type: str, name: str) -> None:
    """Refuse a name that the storage gives no bucket. Raises UsageError."""
    form, words = _FORMS[storage_type]
    if not re.fullmatch(form, name):
        raise UsageError(
            f"--var bucket={name} is no name of a bucket",
            f"it has 3 to 63 {words}, and a letter or digit at both ends",
        )
