"""Check the roles and accounts with which machines use buckets of the other cloud. They contain no secrets."""

import re

from det_controlplane.core.config.reading import Reader
from det_controlplane.core.problems import shown

_ROLE = re.compile(r"arn:aws:iam::\d{12}:role/[\w+=,.@/-]+")
_ADDRESSES = ("token_url", "service_account_impersonation_url")
_TEXTS = ("audience", "subject_token_type", *_ADDRESSES)


def check(reader: Reader, provider: str) -> None:
    """Reject roles that do not work and keys that would put a secret into user data."""
    if provider == "gcp":
        _check_role(reader)
    else:
        _check_account(reader)


def _check_role(reader: Reader) -> None:
    role = reader.text("aws_role_arn", "")
    if role and not _ROLE.fullmatch(role):
        requirement = "the ARN of a role, as arn:aws:iam::123456789012:role/name"
        reader.refuse("aws_role_arn", f"must be {requirement}, not {shown(role)}")


def _check_account(reader: Reader) -> None:
    account = reader.object("google_credentials")
    if not account:
        return None
    if account.get("type") != "external_account":
        message = "must describe an external account, whose type is external_account"
        return reader.refuse(
            "google_credentials", f"{message}: a key would be a secret on each machine"
        )
    missing = [key for key in _TEXTS if not isinstance(account.get(key), str)]
    if missing:
        return reader.refuse("google_credentials", f"lacks {', '.join(missing)}")
    for key in _ADDRESSES:
        if not account[key].startswith("https://"):
            reader.refuse("google_credentials", f"must have an address of HTTPS as {key}")
    return None
