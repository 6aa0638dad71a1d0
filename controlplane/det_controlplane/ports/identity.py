"""Proof of the machine that an agent runs on, so that user data needs no shared secret."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Proof:
    """Hold the proof of an agent that joins, and the nonce that it had to bind it to (`join_nonce`)."""

    kind: str
    nonce: str
    fields: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class MachineIdentity:
    """A machine as its cloud confirms it. `account` is an AWS account or a Google project.

    `signed` is the part of the proof that cannot be forged: two joins with the same one are copies."""

    provider: str
    account: str
    region: str
    cloud_id: str
    signed: str = field(compare=False, repr=False)


class NotProven(Exception):
    """The proof is false, too old, of another agent or of another account; the message says which."""


class IdentityVerifier(Protocol):
    kind: str  # of the proofs that it verifies

    @property
    def provider(self) -> str: ...

    def claimed(self, proof: Proof) -> str | None:
        """Return the machine that a proof names before the cloud is asked about it; None where nobody is asked.

        Raises NotProven for what cannot be a proof."""
        ...

    def verify(self, proof: Proof) -> MachineIdentity:
        """Return whose machine it is. Raises NotProven, and `compute.Unreachable` when the cloud is silent."""
        ...
