"""Fill in missing provider settings of pools from the deployment: region, network and identity of machines."""

from collections.abc import Iterable, Mapping
from typing import Any

# Keys of a section that exclude a default under another key.
_DISPLACED = {
    "subnet_id": "subnet_ids",
    "subnet_ids": "subnet_id",
    "security_group_id": "security_group_ids",
    "security_group_ids": "security_group_id",
    "network": "subnetwork",
}
# Settings that only exist in the deployment's own region.
_REGIONAL = (
    "subnet_id", "subnet_ids", "security_group_id", "security_group_ids", "subnetwork",
)  # fmt: skip
_PLACES = ("region", "regions", "zone", "zones")


def with_defaults(
    raw: Mapping[str, Any], defaults: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a cluster configuration with the deployment's defaults in the provider sections of its pools.

    `defaults` contains the settings of machines by provider."""
    result = dict(raw)
    if isinstance(raw.get("resource_pools"), list):
        result["resource_pools"] = [fill_pool(pool, defaults) for pool in raw["resource_pools"]]
    return result


def fill_pool(pool: Any, defaults: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return the settings of a pool with the deployment's defaults in its provider sections."""
    if not isinstance(pool, dict):
        return pool
    result = dict(pool)
    if isinstance(pool.get("provider"), dict):
        result["provider"] = _fill_section(pool["provider"], defaults)
    if isinstance(pool.get("offers"), list):
        result["offers"] = [
            _fill_section(o, defaults) if isinstance(o, dict) else o for o in pool["offers"]
        ]
    return result


def _fill_section(
    section: Mapping[str, Any], defaults: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    own = _without_nulls(section)
    settings = dict(defaults.get(str(own.get("type")), {}))
    places = [place for key in _PLACES for place in _texts(own.get(key))]
    home = str(settings.get("region") or "")
    if places:
        settings.pop("region", None)
    network = settings.get("network_interface")
    elsewhere = places and not any(place.startswith(home) for place in places)
    if elsewhere and isinstance(network, Mapping):
        settings["network_interface"] = _omit_keys(network, _REGIONAL)
    return _merge_section(settings, own)


def _without_nulls(section: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if value is not None}


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)] if value else []


def _merge_section(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults updated with a section. Objects are merged key by key."""
    names = [_DISPLACED[name] for name in own if name in _DISPLACED]
    result = {**_omit_keys(defaults, names), **own}
    for name, value in own.items():
        default = defaults.get(name)
        if isinstance(value, Mapping) and isinstance(default, Mapping):
            result[name] = _merge_section(default, _without_nulls(value))
    return result


def _omit_keys(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    excluded = set(names)
    return {name: value for name, value in values.items() if name not in excluded}
