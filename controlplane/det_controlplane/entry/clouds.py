"""The clouds that pools rent from, made by the packages of their providers (`entry/providers.py`).

Nothing of a package is imported where no pool names it, nor the SDK of its cloud before it is used.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.entry.providers import provider
from det_controlplane.entry.settings import BadSettings
from det_controlplane.ports.compute import Compute, Market
from det_controlplane.ports.identity import IdentityVerifier
from det_controlplane.ports.provider import Provider

log = logging.getLogger("det.machines")

Made = TypeVar("Made")


def clouds_of(config: ClusterConfig, left: Collection[str] = ()) -> dict[str, Compute]:
    """Return the clouds that can rent machines, by provider. Providers in `left` are included, so that machines of
    pools that stopped renting can be terminated."""
    clouds = {
        name: _make_adapter(package.compute, sections)
        for name, package, sections in _list_used_providers(config)
    }
    for name in sorted(set(left) - clouds.keys()):
        try:
            clouds[name] = _make_adapter(provider(name).compute, [])
        except BadSettings as e:
            log.error("machines on %s are left and cannot be ended from here: %s", name, e)
    return clouds


def markets_of(config: ClusterConfig) -> dict[str, Market]:
    """Return readers of machine types and prices, for providers whose packages report them."""
    return {
        name: _make_adapter(package.market, sections)
        for name, package, sections in _list_used_providers(config)
        if package.market is not None
    }


def identities_of(config: ClusterConfig) -> dict[str, IdentityVerifier]:
    """Return how agents of rented machines prove themselves, by kind of proof."""
    verifiers = [
        verifier
        for _, package, sections in _list_used_providers(config)
        for verifier in _make_adapter(package.identity_verifiers, sections)
    ]
    return {verifier.kind: verifier for verifier in verifiers}


def _list_used_providers(
    config: ClusterConfig,
) -> Iterator[tuple[str, Provider, Sequence[Mapping[str, Any]]]]:
    sections = [section for pool in config.resource_pools for section in pool.sections]
    for name in sorted({section.provider for section in sections}):
        own = [section.settings for section in sections if section.provider == name]
        yield name, provider(name), own


def _make_adapter(
    make: Callable[[Sequence[Mapping[str, Any]]], Made], own: Sequence[Mapping[str, Any]]
) -> Made:
    try:
        return make(own)
    except ModuleNotFoundError as e:
        raise BadSettings(str(e)) from e
