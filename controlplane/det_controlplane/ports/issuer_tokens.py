"""Tokens by which issuers vouch for pipelines and people (OIDC), and what issuers are asked besides their keys."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from det_controlplane.ports.compute import Unreachable


class IssuersBusy(Unreachable):
    """Issuers are being asked for as many callers as may wait for them: try again in a moment."""


class TokenVerifier(Protocol):
    def verified(self, token: str, trusted: Mapping[str, Collection[str]]) -> Mapping[str, Any]:
        """Return the claims of a token that an issuer signed for one of the audiences given with it.

        Raises `identity.NotProven`, and `compute.Unreachable` when the issuer does not tell its keys."""
        ...


class Issuers(Protocol):
    """Ask issuers for documents and tokens. Both calls raise `compute.Unreachable`."""

    def described(self, issuer: str) -> Mapping[str, Any]:
        """Return an issuer's discovery document."""
        ...

    def posted(
        self, issuer: str, url: str, form: Mapping[str, str], secret: tuple[str, str] | None
    ) -> tuple[int, Mapping[str, Any]]:
        """Send a form to an endpoint of an issuer; return the status and the object that it answers."""
        ...
