"""OIDC tokens for pipelines and people, and the requests to their issuers."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from det_controlplane.ports.compute import Unreachable


class IssuersBusy(Unreachable):
    """Issuers are already serving the largest number of callers. Try again in a moment."""


class TokenVerifier(Protocol):
    def verified(self, token: str, trusted: Mapping[str, Collection[str]]) -> Mapping[str, Any]:
        """Return the claims of a token. `trusted` contains the accepted audiences by issuer.

        Raises `identity.NotProven`, or `compute.Unreachable` if the issuer's keys cannot be read."""
        ...


class Issuers(Protocol):
    """Requests to issuers. Both methods raise `compute.Unreachable`."""

    def described(self, issuer: str) -> Mapping[str, Any]:
        """Return an issuer's discovery document."""
        ...

    def posted(
        self, issuer: str, url: str, form: Mapping[str, str], secret: tuple[str, str] | None
    ) -> tuple[int, Mapping[str, Any]]:
        """Post a form to an endpoint of an issuer. Return the status and the JSON object of the answer."""
        ...
