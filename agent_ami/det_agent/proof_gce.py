"""The proof of a machine on Google Compute Engine: an identity token, from its metadata server, for one join."""

import secrets
import urllib.parse
from collections.abc import Mapping

from det_controlplane.core.agent_protocol import gce_audience

from det_agent.metadata import GcpMetadata

KIND = "gce_identity_token"
_TOKEN = "instance/service-accounts/default/identity"


def gce_proof(nonce: str) -> Mapping[str, str]:
    """Return a proof that was not used before. Raises OSError, which says what the machine lacks."""
    # The server may keep a token for each audience, and a cluster takes each token once.
    audience = f"{gce_audience(nonce)}/{secrets.token_hex(8)}"
    query = urllib.parse.urlencode({"audience": audience, "format": "full"})
    token = GcpMetadata().get(f"{_TOKEN}?{query}")
    if token is None:
        raise OSError(
            "this machine has no service account, so it cannot prove what it is: "
            "give the pool's `provider.service_account`"
        )
    return {"kind": KIND, "token": token.strip()}
