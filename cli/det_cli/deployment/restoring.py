"""Restoring a removed cluster: the encryption key of its secrets, and its bucket."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol


class Keys(Protocol):
    """Looks up the encryption keys of databases, including databases of removed clusters."""

    def secrets_key(self, database: str) -> str: ...


def key_object(database: str) -> str:
    """Return the name of the object with a key in the state bucket."""
    return f"secrets-keys/{database}"


def key_in(state: Mapping[str, Any]) -> str:
    """Return the key in a Terraform state, or '' if the stack has not created one yet."""
    ids = {
        instance["index_key"]: str(instance["attributes"]["id"])
        for resource in state.get("resources", ())
        if (resource["type"], resource["name"]) == ("terraform_data", "secrets_key")
        for instance in resource["instances"]
    }
    return ids[0] + ids[1] if len(ids) == 2 else ""  # the stack joins the parts in the same way


def keys_of(account: Keys, *databases: str) -> str:
    """Return the distinct keys of databases as a stack variable. The first key encrypts, and all keys decrypt."""
    keys = (key for name in databases for key in account.secrets_key(name).split(",") if key)
    return ",".join(dict.fromkeys(keys))


def warnings(account: Keys, restored: str, own: str, bucket: str) -> Iterator[str]:
    """Yield warnings about data that is not restored with the database."""
    if not account.secrets_key(restored):
        yield (
            f"the key of {restored} is not stored here: secrets in its configurations can no longer be read"
            " and must be set again"
        )
    if restored != own and not bucket:
        yield (
            f"checkpoints and code of {restored} are in the bucket of that cluster: to use them,"
            " give --var bucket=NAME"
        )
