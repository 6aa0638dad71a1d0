"""Proofs of machines of a fake cloud."""

from collections.abc import Mapping
from dataclasses import dataclass

from det_controlplane.ports.compute import Unreachable
from det_controlplane.ports.identity import MachineIdentity, NotProven, Proof
from det_controlplane.testing.fakecloud import FakeCloud

KIND = "fake_cloud"
ACCOUNT = "fake-account"


def fake_proof(cloud_id: str, nonce: str) -> Mapping[str, str]:
    """Return the proof that the agent of a machine sends at its join."""
    return {"kind": KIND, "cloud_id": cloud_id, "nonce": nonce}


@dataclass(slots=True)
class FakeIdentityVerifier:
    """Implements `IdentityVerifier`: knows the machines that run in a fake cloud."""

    cloud: FakeCloud
    kind: str = KIND

    @property
    def provider(self) -> str:
        return self.cloud.provider

    def claimed(self, proof: Proof) -> str | None:
        return None

    def verify(self, proof: Proof) -> MachineIdentity:
        if not self.cloud.connected:
            raise Unreachable(f"{self.cloud.provider} did not answer")
        if proof.fields.get("nonce") != proof.nonce:
            raise NotProven("the proof is of another join")
        machine = self.cloud.find(proof.fields.get("cloud_id", ""))
        if machine is None or machine.state(self.cloud.now()) != "running":
            raise NotProven(f"no machine {proof.fields.get('cloud_id')!r} runs in the fake cloud")
        return MachineIdentity(
            self.cloud.provider, ACCOUNT, machine.offer.region, machine.cloud_id, proof.nonce
        )
