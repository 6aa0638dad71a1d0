"""Machines of Google Compute Engine. Importing the package loads no library of Google: calls do."""

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from det_controlplane.ports.compute import Compute
from det_controlplane.ports.identity import IdentityVerifier
from det_controlplane.ports.market import Market

if TYPE_CHECKING:
    from det_provisioner_gcp.api import GceApi

# Google's own libraries read the project by the same name.
PROJECT_VARIABLE = "GOOGLE_CLOUD_PROJECT"
# An address of Compute Engine that is not Google's, for trials.
ENDPOINT_VARIABLE = "DET_GCE_ENDPOINT"


def compute(sections: Sequence[Mapping[str, Any]]) -> Compute:
    """Return how to rent machines, for pools with these provider sections. Raises ModuleNotFoundError."""
    _require("google.cloud", "google.cloud.compute_v1")
    from det_provisioner_gcp.compute_engine import GceCompute

    return GceCompute(_api(), os.environ.get(PROJECT_VARIABLE, ""), projects=_projects_of(sections))


def market(sections: Sequence[Mapping[str, Any]]) -> Market:
    """Return how to read types and prices. Raises ModuleNotFoundError."""
    _require("google.cloud", "google.cloud.compute_v1")
    from det_provisioner_gcp.prices import GceMarket

    return GceMarket(_api(), os.environ.get(PROJECT_VARIABLE, ""))


def identity_verifiers(sections: Sequence[Mapping[str, Any]]) -> Sequence[IdentityVerifier]:
    """Return how machines of these sections' projects prove themselves. Raises ModuleNotFoundError."""
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
    """Look whether libraries are there, without loading them."""
    try:
        missing = [name for name in modules if find_spec(name) is None]
    except ModuleNotFoundError as e:
        missing = [str(e.name)]
    if missing:
        raise ModuleNotFoundError(
            f"pools rent machines from gcp, and {missing[0]} is not installed: install determined-serverless[gcp]"
        )
