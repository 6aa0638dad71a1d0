"""Keep the key of a removed cluster's secrets and find its bucket again, which its database needs to come back."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol


class Keys(Protocol):
    """Tell the keys of the secrets in databases, also of clusters that are gone."""

    def secrets_key(self, database: str) -> str: ...


def place_of_key(database: str) -> str:
    """Return the name under which a key lies beside the states of clusters."""
    return f"secrets-keys/{database}"


def key_in(state: Mapping[str, Any]) -> str:
    """Return the key that a state of Terraform made; empty for one that made none yet."""
    ids = {
        instance["index_key"]: str(instance["attributes"]["id"])
        for resource in state.get("resources", ())
        if (resource["type"], resource["name"]) == ("terraform_data", "secrets_key")
        for instance in resource["instances"]
    }
    return ids[0] + ids[1] if len(ids) == 2 else ""  # as the stack joins them


def keys_of(account: Keys, *databases: str) -> str:
    """Return the keys of some databases as the stack takes them, each once: the first encrypts, all decrypt."""
    found = (key for name in databases for key in account.secrets_key(name).split(",") if key)
    return ",".join(dict.fromkeys(found))


def warnings(account: Keys, restored: str, own: str, bucket: str) -> Iterator[str]:
    """Tell what of a cluster does not come back with its database."""
    if not account.secrets_key(restored):
        yield (
            f"no key of {restored} is kept here: secrets in its configurations cannot be read any more,"
            " and are set again"
        )
    if restored != own and not bucket:
        yield (
            f"checkpoints and code of {restored} lie in the bucket of that cluster: to go on with them,"
            " --var bucket=NAME takes it over"
        )
