"""The proof of a machine on Google Compute Engine: an identity token, from its metadata server, for one join."""

import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping

from det_controlplane.core.agent_protocol import gce_audience

KIND = "gce_identity_token"
_PATH = "/computeMetadata/v1/instance/service-accounts/default/identity"
_FLAVOR = ("Metadata-Flavor", "Google")
_TIMEOUT_S = 5.0
# The metadata server is on this machine: a proxy would reach another one's.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def gce_proof(nonce: str) -> Mapping[str, str]:
    """Return the proof for a join. Raises OSError, which says what the machine lacks."""
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    query = urllib.parse.urlencode({"audience": gce_audience(nonce), "format": "full"})
    request = urllib.request.Request(f"http://{host}{_PATH}?{query}", headers=dict([_FLAVOR]))
    try:
        with _direct.open(request, timeout=_TIMEOUT_S) as answer:
            if answer.headers.get(_FLAVOR[0]) != _FLAVOR[1]:
                raise OSError(f"{host} is not Google's metadata server")
            return {"kind": KIND, "token": answer.read().decode("ascii").strip()}
    except urllib.error.HTTPError as e:
        with e:
            if e.code == 404:
                raise OSError(
                    "this machine has no service account, so it cannot prove what it is: "
                    "give the pool's `provider.service_account`"
                ) from None
            raise OSError(f"the metadata server answered {e.code} {e.reason}") from None
