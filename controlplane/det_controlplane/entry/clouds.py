"""The clouds that pools rent from, made by the packages of their providers (`entry/providers.py`).

Nothing of a package is imported where no pool names it, nor the SDK of its cloud before it is used.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, TypeVar

from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.entry.providers import provider, register_used
from det_controlplane.entry.settings import BadSettings
from det_controlplane.ports.compute import Compute, Market
from det_controlplane.ports.identity import IdentityVerifier
from det_controlplane.ports.provider import Provider

log = logging.getLogger("det.machines")

Made = TypeVar("Made")
# The library of a cloud, and the extra that installs it.
_LIBRARIES = {"aws": ("boto3", "aws"), "gcp": ("google.cloud.compute_v1", "gcp")}
# The variable with which a deployment on the other cloud has rights, and how it gets them.
_RIGHTS_ELSEWHERE = {
    "aws": ("DET_AWS_ROLE_ARN", "give `det deploy gcp up` the variable aws_role_arn"),
    "gcp": ("GOOGLE_APPLICATION_CREDENTIALS", "give `det deploy aws up` --google-credentials"),
}


def clouds_of(config: ClusterConfig, left: Collection[str] = ()) -> dict[str, Compute]:
    """Return the clouds that can rent machines, by provider. Providers in `left` are included, so that machines of
    pools that stopped renting can be terminated."""
    clouds = {
        name: _make_adapter(name, package.compute, sections)
        for name, package, sections in _list_used_providers(config)
    }
    for name in sorted(set(left) - clouds.keys()):
        try:
            clouds[name] = _make_adapter(name, provider(name).compute, [])
        except BadSettings as e:
            log.error("machines on %s are left and cannot be ended from here: %s", name, e)
    return clouds


def markets_of(config: ClusterConfig) -> dict[str, Market]:
    """Return readers of machine types and prices, for providers whose packages report them."""
    return {
        name: _make_adapter(name, package.market, sections)
        for name, package, sections in _list_used_providers(config)
        if package.market is not None
    }


def identities_of(config: ClusterConfig) -> dict[str, IdentityVerifier]:
    """Return how agents of rented machines prove themselves, by kind of proof."""
    verifiers = [
        verifier
        for name, package, sections in _list_used_providers(config)
        for verifier in _make_adapter(name, package.identity_verifiers, sections)
    ]
    return {verifier.kind: verifier for verifier in verifiers}


class InstalledClouds:
    """Implements `ports.clouds.Clouds`: the clouds for which this deployment has rights, and their libraries."""

    def __init__(
        self, defaults: Mapping[str, Mapping[str, Any]], environment: Mapping[str, str]
    ) -> None:
        self._homes = [name for name, settings in defaults.items() if settings]
        self._environment = environment

    def prepare(self, pools: Iterable[Mapping[str, Any]]) -> list[str]:
        faults = []
        for pool in pools:
            try:
                register_used({"resource_pools": [pool]})
            except BadSettings as e:
                faults.append(str(e))
        return faults

    def refusal(self, provider: str) -> str:
        if provider not in _LIBRARIES:
            return ""  # the package of another provider was found before
        if self._homes:
            return self._refusal_of_deployment(provider)
        module, extra = _LIBRARIES[provider]
        if _is_installed(module):
            return ""
        return (
            f"this cluster has no provisioner for {provider}: {module} is not installed on its machine;"
            f" install determined-serverless[{extra}] and start the cluster again"
        )

    def _refusal_of_deployment(self, provider: str) -> str:
        variable, way = _RIGHTS_ELSEWHERE[provider]
        if provider in self._homes or self._environment.get(variable):
            return ""
        home = " and ".join(self._homes)
        return f"this cluster runs on {home} and has no rights on {provider}: {way}, then try again"

    def identities(self, config: ClusterConfig) -> dict[str, IdentityVerifier]:
        """Return the verifiers of all clouds that can be reached. A cloud without its library is logged."""
        verifiers: dict[str, IdentityVerifier] = {}
        for name, sections in _sections_by_provider(config).items():
            try:
                made = _make_adapter(name, provider(name).identity_verifiers, sections)
            except BadSettings as e:
                log.error("machines on %s cannot join: %s", name, e)
            else:
                verifiers |= {verifier.kind: verifier for verifier in made}
        return verifiers


class Adapters:
    """The adapters of the clouds in which pools rent or rented, made again when the pools change."""

    def __init__(self) -> None:
        self._made: tuple[ClusterConfig, set[str]] | None = None
        self.clouds: dict[str, Compute] = {}
        self.markets: dict[str, Market] = {}

    def make(self, config: ClusterConfig, left: Collection[str]) -> None:
        """Make the adapters for a configuration and for clouds with machines of earlier ones. Raises BadSettings."""
        if self._made is not None and self._made[0] is config and self._made[1] == set(left):
            return
        self.clouds, self.markets = clouds_of(config, left), markets_of(config)
        self._made = (config, set(left))


def _list_used_providers(
    config: ClusterConfig,
) -> Iterator[tuple[str, Provider, Sequence[Mapping[str, Any]]]]:
    for name, sections in _sections_by_provider(config).items():
        yield name, provider(name), sections


def _sections_by_provider(config: ClusterConfig) -> dict[str, list[Mapping[str, Any]]]:
    sections = [section for pool in config.resource_pools for section in pool.sections]
    return {
        name: [section.settings for section in sections if section.provider == name]
        for name in sorted({section.provider for section in sections})
    }


def _make_adapter(
    name: str,
    make: Callable[[Sequence[Mapping[str, Any]]], Made],
    own: Sequence[Mapping[str, Any]],
) -> Made:
    try:
        return make(own)
    except ModuleNotFoundError as e:
        raise BadSettings(str(e)) from e
    except Exception as e:  # the package of somebody else may raise anything
        raise BadSettings(f"provider {name!r} cannot start: {type(e).__name__}: {e}") from e


def _is_installed(module: str) -> bool:
    """Return whether a library is installed, without loading it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False
