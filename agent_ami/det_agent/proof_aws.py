"""The proof of a machine on EC2: a request to STS, signed by the machine's role, that only the control plane sends."""

import json
from collections.abc import Mapping

from det_controlplane.core.agent_protocol import STS_BODY, sts_headers, sts_host

from det_agent.metadata import AwsMetadata

KIND = "aws_sts"
_CREDENTIALS = "meta-data/iam/security-credentials/"


def aws_proof(nonce: str) -> Mapping[str, str]:
    """Return the proof for a join. Raises OSError, which says what the machine lacks."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    metadata = AwsMetadata()
    document = metadata.get("dynamic/instance-identity/document") or ""
    region = _object(document).get("region", "")
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


def _role_credentials(metadata: AwsMetadata) -> Mapping[str, str]:
    roles = (metadata.get(_CREDENTIALS) or "").splitlines()
    if not roles:
        raise OSError(
            "this machine has no role, so it cannot prove what it is: "
            "give the pool's `provider.iam_instance_profile_arn`"
        )
    keys = _object(metadata.get(_CREDENTIALS + roles[0]) or "")
    if not keys.keys() >= {"AccessKeyId", "SecretAccessKey", "Token"}:
        said = keys.get("Message") or keys.get("Code") or "nothing"
        raise OSError(f"the metadata service has no credentials of the role {roles[0]}: {said}")
    return keys


def _object(text: str) -> Mapping[str, str]:
    try:
        read = json.loads(text)
    except ValueError as e:
        raise OSError(f"the metadata service is not EC2's: {e}") from e
    if not isinstance(read, dict):
        raise OSError(f"the metadata service is not EC2's: it says {text[:80]!r}")
    return read
