"""Machines of Google Compute Engine. Importing the package does not load Google's libraries; its functions do."""

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from det_controlplane.ports.compute import Compute, Market
from det_controlplane.ports.identity import IdentityVerifier
from det_controlplane.ports.provider import Provider

if TYPE_CHECKING:
    from det_provisioner_gcp.api import GceApi

# Google's own libraries read the project from the same variable.
PROJECT_VARIABLE = "GOOGLE_CLOUD_PROJECT"
# An alternative address of Compute Engine, for tests.
ENDPOINT_VARIABLE = "DET_GCE_ENDPOINT"


def compute(sections: Sequence[Mapping[str, Any]]) -> Compute:
    """Return the object that rents machines, for pools with these sections. Raises ModuleNotFoundError."""
    _require("google.cloud", "google.cloud.compute_v1")
    from det_provisioner_gcp.compute_engine import GceCompute

    return GceCompute(_api(), os.environ.get(PROJECT_VARIABLE, ""), projects=_projects_of(sections))


def market(sections: Sequence[Mapping[str, Any]]) -> Market:
    """Return the object that reads machine types and prices. Raises ModuleNotFoundError."""
    _require("google.cloud", "google.cloud.compute_v1")
    from det_provisioner_gcp.prices import GceMarket

    return GceMarket(_api(), os.environ.get(PROJECT_VARIABLE, ""))


def identity_verifiers(sections: Sequence[Mapping[str, Any]]) -> Sequence[IdentityVerifier]:
    """Return the verifiers of machines in these sections' projects. Raises ModuleNotFoundError."""
    _require("google.auth")
    from det_provisioner_gcp.identity import GceIdentityVerifier, GoogleCertificates

    return (GceIdentityVerifier(_projects_of(sections), GoogleCertificates()),)


def _projects_of(sections: Sequence[Mapping[str, Any]]) -> set[str]:
    default = os.environ.get(PROJECT_VARIABLE, "")
    return {str(section.get("project") or default) for section in sections} - {""}


def _api() -> "GceApi":
    from det_provisioner_gcp.api import GceApi

    return GceApi(os.environ.get(ENDPOINT_VARIABLE, ""))


def _require(*modules: str) -> None:
    """Raise ModuleNotFoundError if a library is not installed, without loading it."""
    try:
        missing = [name for name in modules if find_spec(name) is None]
    except ModuleNotFoundError as e:
        missing = [str(e.name)]
    if missing:
        raise ModuleNotFoundError(
            f"pools rent machines from gcp, and {missing[0]} is not installed: install determined-serverless[gcp]"
        )


PROVIDER = Provider("gcp", compute, identity_verifiers, market)
