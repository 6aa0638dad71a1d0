"""The provisioners of the clouds that pools rent from: packages `det_provisioner_PROVIDER`, found by name.

A package has `compute(sections) -> Compute` and `identity_verifiers(sections) -> Sequence[IdentityVerifier]`, and may
have `market(sections) -> Market`; all are given the pools' sections for it. Nothing of it is imported where no pool
names it, nor the SDK of its cloud before it is used.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.entry.settings import BadSettings
from det_controlplane.ports.compute import Compute, Market
from det_controlplane.ports.identity import IdentityVerifier

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
            clouds[name] = _make_adapter(_package(name).compute, [])
        except BadSettings as e:
            log.error("machines on %s are left and cannot be ended from here: %s", name, e)
    return clouds


def markets_of(config: ClusterConfig) -> dict[str, Market]:
    """Return readers of machine types and prices, for providers whose packages have `market(sections)`."""
    return {
        name: _make_adapter(package.market, sections)
        for name, package, sections in _list_used_providers(config)
        if hasattr(package, "market")
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
) -> Iterator[tuple[str, ModuleType, Sequence[Mapping[str, Any]]]]:
    sections = [section for pool in config.resource_pools for section in pool.sections]
    for provider in sorted({section.provider for section in sections}):
        own = [section.settings for section in sections if section.provider == provider]
        yield provider, _package(provider), own


def _make_adapter(
    make: Callable[[Sequence[Mapping[str, Any]]], Made], own: Sequence[Mapping[str, Any]]
) -> Made:
    try:
        return make(own)
    except ModuleNotFoundError as e:
        raise BadSettings(str(e)) from e


def _package(provider: str) -> ModuleType:
    try:
        return import_module(f"det_provisioner_{provider}")
    except ModuleNotFoundError as e:
        raise BadSettings(
            f"a resource pool rents from {provider!r}, and there is no provisioner for it: install a package"
            f" that has the module det_provisioner_{provider}"
        ) from e
