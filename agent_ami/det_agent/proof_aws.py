"""The proof of a machine on EC2: a request to STS, signed by the machine's role, that only the control plane sends."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping

from det_controlplane.core.agent_protocol import STS_BODY, sts_headers, sts_host

KIND = "aws_sts"
_CREDENTIALS = "meta-data/iam/security-credentials/"
_TIMEOUT_S = 5.0
# The metadata service is on this machine: a proxy would reach another one's.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def aws_proof(nonce: str) -> Mapping[str, str]:
    """Return the proof for a join. Raises OSError, which says what the machine lacks."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    metadata = _Metadata()
    document = metadata.get("dynamic/instance-identity/document")
    region = _json(document).get("region", "")
    keys = _role_credentials(metadata)
    request = AWSRequest(
        "POST", f"https://{sts_host(region)}/", data=STS_BODY, headers=sts_headers(region, nonce)
    )
    credentials = Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["Token"])
    SigV4Auth(credentials, "sts", region).add_auth(request)
    return {
        "kind": KIND,
        "region": region,
        "date": request.headers["X-Amz-Date"],
        "session_token": request.headers["X-Amz-Security-Token"],
        "authorization": request.headers["Authorization"],
        "document": document,
    }


def _role_credentials(metadata: "_Metadata") -> Mapping[str, str]:
    try:
        role = metadata.get(_CREDENTIALS).splitlines()[0]
    except (FileNotFoundError, IndexError):
        raise OSError(
            "this machine has no role, so it cannot prove what it is: "
            "give the pool's `provider.iam_instance_profile_arn`"
        ) from None
    keys = _json(metadata.get(_CREDENTIALS + role))
    if not keys.keys() >= {"AccessKeyId", "SecretAccessKey", "Token"}:
        said = keys.get("Message") or keys.get("Code") or "nothing"
        raise OSError(f"the metadata service has no credentials of the role {role}: {said}")
    return keys


def _json(text: str) -> Mapping[str, str]:
    try:
        read: Mapping[str, str] = json.loads(text)
    except ValueError as e:
        raise OSError(f"the metadata service is not EC2's: {e}") from e
    return read


class _Metadata:
    """The metadata service of this machine, version 2. It wants a token, which a forged request cannot get."""

    def __init__(self) -> None:
        given = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254")
        self._url = f"{given.rstrip('/')}/latest/"
        life = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        self._headers = {"X-aws-ec2-metadata-token": self._call("PUT", "api/token", life)}

    def get(self, path: str) -> str:
        """Return a value. Raises FileNotFoundError where the machine has none."""
        return self._call("GET", path, self._headers)

    def _call(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        request = urllib.request.Request(self._url + path, method=method, headers=dict(headers))
        try:
            with _direct.open(request, timeout=_TIMEOUT_S) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as e:
            with e:
                if e.code == 404:
                    raise FileNotFoundError(f"the metadata service has no {path}") from None
                raise OSError(f"the metadata service answered {e.code} to {path}") from None
