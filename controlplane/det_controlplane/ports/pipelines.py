"""Tokens by which services of continuous integration vouch for their pipelines."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol


class PipelineTokens(Protocol):
    def verified(self, token: str, trusted: Mapping[str, Collection[str]]) -> Mapping[str, Any]:
        """Return the claims of a token that an issuer signed for one of the audiences given with it.

        Raises `identity.NotProven`, and `compute.Unreachable` when the issuer does not tell its keys."""
        ...
