"""Proofs of the identity of machines, pipelines and people. With them, user data needs no shared secret."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from det_controlplane.ports.compute import Unreachable


@dataclass(frozen=True, slots=True)
class Proof:
    """The proof of a joining agent, and the nonce that binds it to this agent (`join_nonce`)."""

    kind: str
    nonce: str
    fields: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class MachineIdentity:
    """A machine that its cloud has confirmed. `account` is an AWS account or a Google project.

    `signed` is the unforgeable part of the proof. Two joins with the same value are copies."""

    provider: str
    account: str
    region: str
    cloud_id: str
    signed: str = field(compare=False, repr=False)


class NotProven(Exception):
    """The proof is false, too old, or belongs to another agent or account. The message gives the reason."""


class IdentityVerifier(Protocol):
    kind: str  # the kind of proof

    @property
    def provider(self) -> str: ...

    def claimed(self, proof: Proof) -> str | None:
        """Return the machine that a proof claims, before the cloud verifies it. None if no cloud is asked.

        Raises NotProven if the proof is malformed."""
        ...

    def verify(self, proof: Proof) -> MachineIdentity:
        """Return the machine. Raises NotProven, or `compute.Unreachable` if the cloud does not answer."""
        ...


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
