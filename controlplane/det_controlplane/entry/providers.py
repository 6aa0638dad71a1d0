"""Find the packages of clouds: entry points of the group `determined.providers`, by the names in the configuration.

The packages of AWS and Google Cloud are found in the same way, without reading the metadata of every installed
distribution: functions start faster, and their archives have no metadata.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from det_controlplane.core.provision import catalog
from det_controlplane.entry.settings import BadSettings
from det_controlplane.ports.provider import GROUP, INTERFACE, Provider

_BUILT_IN = tuple(
    EntryPoint(name, f"det_provisioner_{name}:PROVIDER", GROUP) for name in ("aws", "gcp")
)
_NAME = re.compile(r"[a-z][a-z0-9-]*")


@cache
def provider(name: str) -> Provider:
    """Return the package of a cloud. Raises BadSettings with the reason why it cannot be used."""
    point = _entry_point(name)
    try:
        loaded = point.load()
    except Exception as e:  # the package of somebody else may raise anything
        raise BadSettings(
            f"the package of provider {name!r} ({_origin(point)}) cannot be loaded: {e}"
        ) from e
    return _checked(name, point, loaded)


def register_used(config: Mapping[str, Any]) -> None:
    """Register the catalogs of other packages that a configuration names, before it is read. Raises BadSettings."""
    for name in sorted(set(_types(config)) - set(catalog.providers())):
        if _NAME.fullmatch(name):
            own = provider(name).catalog
            assert own is not None, "checked when it was loaded"
            catalog.register(own)


def _types(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types of all sections. The reader of the configuration reports malformed ones."""
    for pool in _objects(config.get("resource_pools")):
        for section in (*_objects([pool.get("provider")]), *_objects(pool.get("offers"))):
            if isinstance(section.get("type"), str):
                yield section["type"]


def _objects(values: Any) -> Iterator[Mapping[str, Any]]:
    yield from (v for v in (values if isinstance(values, list) else ()) if isinstance(v, Mapping))


def _entry_point(name: str) -> EntryPoint:
    built_in = [point for point in _BUILT_IN if point.name == name]
    if built_in:
        return built_in[0]
    others: list[EntryPoint] = [*entry_points(group=GROUP)]
    found = {(p.value, _origin(p)): p for p in others if p.name == name}
    if len(found) > 1:
        packages = " and ".join(sorted(origin for _, origin in found))
        raise BadSettings(f"two packages have the provider {name!r}: {packages}; uninstall one")
    if not found:
        raise BadSettings(_missing(name, (p.name for p in others)))
    return next(iter(found.values()))


def _missing(name: str, others: Iterable[str]) -> str:
    known = ", ".join([*(p.name for p in _BUILT_IN), *sorted(set(others))])
    return (
        f"a resource pool rents from {name!r}, and no installed package has this provider; this control plane has"
        f" {known}: install the package (an entry point {name!r} of the group {GROUP}) where it runs"
    )


def _checked(name: str, point: EntryPoint, loaded: object) -> Provider:
    whose = f"provider {name!r} ({_origin(point)})"
    if not isinstance(loaded, Provider):
        raise BadSettings(f"{whose}: {point.value} is no det_controlplane.ports.provider.Provider")
    if loaded.interface != INTERFACE:
        newer = (
            "upgrade the control plane" if loaded.interface > INTERFACE else "upgrade the package"
        )
        raise BadSettings(
            f"{whose} has version {loaded.interface} of the interface, and this control plane has {INTERFACE}: {newer}"
        )
    own = loaded.catalog
    if loaded.name != name or (own is not None and own.provider != name):
        raise BadSettings(
            f"{whose} calls itself {loaded.name!r} and its catalog {own and own.provider!r}; all names must be equal"
        )
    if own is None and name not in catalog.providers():
        raise BadSettings(f"{whose} has no catalog of machine types and regions")
    return loaded


def _origin(point: EntryPoint) -> str:
    distribution = point.dist
    return f"{distribution.name} {distribution.version}" if distribution else point.value
