"""Proofs that a process is a machine of the garage. The garage gives each machine a key, as clouds sign documents.

`python -m det_provider_garage.identity` is the `identity_command` of agents on machines. It signs the nonce of a join.
"""

import hashlib
import hmac
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from det_controlplane.ports.compute import Unreachable
from det_controlplane.ports.identity import MachineIdentity, NotProven, Proof

KIND = "garage"
MACHINE_VARIABLE = "GARAGE_MACHINE"  # the folder of the machine that the process runs on


def sign(key: str, nonce: str) -> str:
    return hmac.new(key.encode(), nonce.encode(), hashlib.sha256).hexdigest()


@dataclass
class GarageVerifier:
    """The control plane's side: find the machine and compare the signature."""

    folder: Path
    kind: str = KIND
    provider: str = "garage"

    def claimed(self, proof: Proof) -> str | None:
        """Return the machine that the proof names. The control plane refuses machines that it does not await."""
        machine = proof.fields.get("machine", "")
        if not machine.isalnum():
            raise NotProven("the proof names no machine of the garage")
        return machine

    def verify(self, proof: Proof) -> MachineIdentity:
        machine = self.claimed(proof)
        path = self.folder / f"{machine}.json"
        if not self.folder.is_dir():
            raise Unreachable(f"the garage at {self.folder} is closed")
        if not path.exists():
            raise NotProven(f"the garage has no machine {machine}")
        facts = json.loads(path.read_text())
        signature = proof.fields.get("signature", "")
        if not hmac.compare_digest(sign(facts["key"], proof.nonce), signature):
            raise NotProven(f"the signature of machine {machine} is wrong")
        return MachineIdentity("garage", "home", facts["region"], facts["cloud_id"], signature)


def main() -> None:
    """Print the proof of this machine."""
    facts = json.loads((Path(os.environ[MACHINE_VARIABLE]) / "machine.json").read_text())
    signature = sign(facts["key"], os.environ["DET_JOIN_NONCE"])
    json.dump({"kind": KIND, "machine": facts["cloud_id"], "signature": signature}, sys.stdout)


if __name__ == "__main__":
    main()
