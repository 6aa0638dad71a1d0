"""Make the proof that an agent joins with: the operator's token, or the machine that it runs on."""

from collections.abc import Callable, Mapping
from pathlib import Path

from det_controlplane.core.agent_protocol import JoinRequest, join_nonce

from det_agent.proof_aws import aws_proof
from det_agent.proof_gce import gce_proof
from det_agent.settings import Settings

Proof = Mapping[str, str]
_OF_MACHINES: Mapping[str, Callable[[str], Proof]] = {"aws": aws_proof, "gcp": gce_proof}


def proof_of(settings: Settings, joining: JoinRequest) -> Callable[[], Proof]:
    """Return a function that makes a fresh proof for each join, and raises OSError where it cannot."""
    if settings.identity not in _OF_MACHINES:
        return lambda: bootstrap_proof(settings.token_file)
    of_machine = _OF_MACHINES[settings.identity]
    nonce = join_nonce(
        settings.cluster_id, joining.agent_id, joining.agent_key, joining.incarnation
    )
    return lambda: of_machine(nonce)


def bootstrap_proof(token_file: str) -> Proof:
    """Read the bootstrap token, at every join: tokens are replaced while agents run."""
    token = Path(token_file).read_text().strip() if token_file else ""
    return {"kind": "bootstrap_token", "token": token}
