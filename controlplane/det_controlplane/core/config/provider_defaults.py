"""Complete the provider sections of pools with the deployment's facts: region, network, identity of machines."""

from collections.abc import Iterable, Mapping
from typing import Any

# What a section gives beside a default that it does not fit to.
_DISPLACED = {
    "subnet_id": "subnet_ids",
    "subnet_ids": "subnet_id",
    "security_group_id": "security_group_ids",
    "security_group_ids": "security_group_id",
    "network": "subnetwork",
}
# What only the deployment's own region has.
_REGIONAL = (
    "subnet_id", "subnet_ids", "security_group_id", "security_group_ids", "subnetwork",
)  # fmt: skip
_PLACES = ("region", "regions", "zone", "zones")


def with_defaults(
    raw: Mapping[str, Any], defaults: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a cluster configuration whose pools take from a deployment what their provider sections leave out:
    where machines run, and as what. `defaults` are by provider."""
    filled = dict(raw)
    if isinstance(raw.get("resource_pools"), list):
        filled["resource_pools"] = [_filled_pool(pool, defaults) for pool in raw["resource_pools"]]
    return filled


def _filled_pool(pool: Any, defaults: Mapping[str, Mapping[str, Any]]) -> Any:
    if not isinstance(pool, dict):
        return pool
    filled = dict(pool)
    if isinstance(pool.get("provider"), dict):
        filled["provider"] = _filled(pool["provider"], defaults)
    if isinstance(pool.get("offers"), list):
        filled["offers"] = [
            _filled(o, defaults) if isinstance(o, dict) else o for o in pool["offers"]
        ]
    return filled


def _filled(
    section: Mapping[str, Any], defaults: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    own = _given(section)
    found = dict(defaults.get(str(own.get("type")), {}))
    places = [place for key in _PLACES for place in _texts(own.get(key))]
    home = str(found.get("region") or "")
    if places:
        found.pop("region", None)
    network = found.get("network_interface")
    elsewhere = places and not any(place.startswith(home) for place in places)
    if elsewhere and isinstance(network, Mapping):
        found["network_interface"] = _without(network, _REGIONAL)
    return _merged(found, own)


def _given(section: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if value is not None}


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)] if value else []


def _merged(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults with what a section says, key by key also within objects."""
    displaced = [_DISPLACED[name] for name in own if name in _DISPLACED]
    merged = {**_without(defaults, displaced), **own}
    for name, value in own.items():
        default = defaults.get(name)
        if isinstance(value, Mapping) and isinstance(default, Mapping):
            merged[name] = _merged(default, _given(value))
    return merged


def _without(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    left_out = set(names)
    return {name: value for name, value in values.items() if name not in left_out}
