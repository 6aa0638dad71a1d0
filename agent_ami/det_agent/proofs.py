"""Create the proof for a join: the operator's token or the identity of the cloud machine."""

import json
import os
import secrets
import subprocess
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from det_controlplane.core.agent_protocol import (
    STS_BODY,
    JoinRequest,
    gce_audience,
    join_nonce,
    sts_headers,
    sts_host,
)

from det_agent.credentials import json_object, role_credentials
from det_agent.metadata import AwsMetadata, GcpMetadata
from det_agent.settings import Settings

Proof = Mapping[str, str]
# The program of `identity_command` finds the nonce here.
NONCE_VARIABLE = "DET_JOIN_NONCE"
_COMMAND_S = 60.0
_GCE_TOKEN = "instance/service-accounts/default/identity"


def proof_of(settings: Settings, joining: JoinRequest) -> Callable[[], Proof]:
    """Return a function that creates a new proof for each join. The function raises OSError if it cannot."""
    nonce = join_nonce(
        settings.cluster_id, joining.agent_id, joining.agent_key, joining.incarnation
    )
    if settings.identity == "command":
        return lambda: command_proof(settings.identity_command, nonce)
    proof_of_machine = _PROOFS_OF_MACHINES.get(settings.identity)
    if proof_of_machine is None:
        return lambda: bootstrap_proof(settings.token_file)
    return lambda: proof_of_machine(nonce)


def command_proof(command: Sequence[str], nonce: str) -> Proof:
    """Return the JSON object that a program prints: the proof of a cloud that this agent does not know.

    The program finds the nonce in the variable DET_JOIN_NONCE. Raises OSError with its last words if it fails."""
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_COMMAND_S,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, NONCE_VARIABLE: nonce},
    )
    try:
        proof = json.loads(result.stdout)
        if result.returncode == 0 and isinstance(proof, dict) and proof.get("kind"):
            return {str(name): str(value) for name, value in proof.items()}
    except ValueError:
        pass
    words = (result.stderr.strip() or "it prints no JSON object with a kind")[-300:]
    raise OSError(f"identity_command {command[0]} failed with status {result.returncode}: {words}")


def bootstrap_proof(token_file: str) -> Proof:
    """Read the bootstrap token. Each join reads it again, because operators replace tokens while agents run."""
    token = Path(token_file).read_text().strip() if token_file else ""
    return {"kind": "bootstrap_token", "token": token}


def aws_proof(nonce: str) -> Proof:
    """Sign a request to STS with the machine's role; the control plane sends it to learn the role.

    Raises OSError with the reason if the machine has no role."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    metadata = AwsMetadata()
    document = metadata.get("dynamic/instance-identity/document") or ""
    region = json_object(document, "EC2's").get("region", "")
    keys = role_credentials(metadata)
    request = AWSRequest(
        "POST", f"https://{sts_host(region)}/", data=STS_BODY, headers=sts_headers(region, nonce)
    )
    credentials = Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["Token"])
    SigV4Auth(credentials, "sts", region).add_auth(request)
    return {
        "kind": "aws_sts",
        "region": region,
        "date": request.headers["X-Amz-Date"],
        "session_token": request.headers["X-Amz-Security-Token"],
        "authorization": request.headers["Authorization"],
        "document": document,
    }


def gce_proof(nonce: str) -> Proof:
    """Return a new identity token of the machine's service account.

    Raises OSError if the machine has no service account."""
    # The metadata server may cache a token for each audience, and a cluster accepts each token only once.
    audience = f"{gce_audience(nonce)}/{secrets.token_hex(8)}"
    query = urllib.parse.urlencode({"audience": audience, "format": "full"})
    token = GcpMetadata().get(f"{_GCE_TOKEN}?{query}")
    if token is None:
        raise OSError(
            "this machine has no service account, so it cannot prove what it is: "
            "give the pool's `provider.service_account`"
        )
    return {"kind": "gce_identity_token", "token": token.strip()}


_PROOFS_OF_MACHINES: Mapping[str, Callable[[str], Proof]] = {"aws": aws_proof, "gcp": gce_proof}
