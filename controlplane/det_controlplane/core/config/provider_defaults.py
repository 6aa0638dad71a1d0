"""Complete provider sections of pools with what the deployment knows: where machines run, and as what."""

from collections.abc import Mapping
from typing import Any


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
        filled["provider"] = _filled(pool["provider"], "type", defaults)
    if isinstance(pool.get("offers"), list):
        filled["offers"] = [
            _filled(o, "provider", defaults) if isinstance(o, dict) else o for o in pool["offers"]
        ]
    return filled


def _filled(
    section: Mapping[str, Any], kind: str, defaults: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    own = {name: value for name, value in section.items() if value is not None}
    found = dict(defaults.get(str(section.get(kind)), {}))
    if "regions" in own or "zones" in own:
        found.pop("region", None)
    return {**found, **own}
