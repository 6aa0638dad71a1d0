"""The accounts, regions and roles of the machines that a cluster trusts."""

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from det_controlplane.ports.compute import Unreachable

_PROFILE = re.compile(r"arn:aws[a-z-]*:iam::(\d{12}):instance-profile/.+")


@dataclass(frozen=True, slots=True)
class Trusted:
    """Trusted accounts, regions and, if any are named, roles."""

    accounts: Callable[[], Collection[str]]
    regions: Collection[str]
    roles: Collection[str] = ()


def trusted_by(sections: Sequence[Mapping[str, Any]]) -> Trusted:
    """Read the pools' sections. An instance profile's ARN names its account; other profiles are in our own account."""
    profiles = [str(s.get("iam_instance_profile_arn") or "") for s in sections]
    named_accounts = {match[1] for match in map(_PROFILE.fullmatch, profiles) if match}
    regions = frozenset(region for section in sections for region in _regions(section))
    if all(_PROFILE.fullmatch(profile) for profile in profiles):
        return Trusted(lambda: named_accounts, regions)
    own_account = functools.cache(lambda: _own_account(min(regions, default="us-east-1")))
    return Trusted(lambda: {*named_accounts, own_account()}, regions)


def _regions(section: Mapping[str, Any]) -> set[str]:
    regions = [*_texts(section, "regions"), *_texts(section, "region")]
    zones = [*_texts(section, "zones"), *_texts(section, "zone")]
    return {*regions, *(zone.rstrip("abcdefghijklmnopqrstuvwxyz") for zone in zones)}


def _texts(section: Mapping[str, Any], key: str) -> list[str]:
    value = section.get(key) or ()
    return [value] if isinstance(value, str) else [str(item) for item in value]


def _own_account(region: str) -> str:
    from botocore.exceptions import BotoCoreError, ClientError

    from det_provisioner_aws.clients import Clients

    try:
        return str(Clients().reading("sts", region).get_caller_identity()["Account"])
    except (BotoCoreError, ClientError) as e:
        raise Unreachable(f"STS does not say which account this cluster runs in: {e}") from e
