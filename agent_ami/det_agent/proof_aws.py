"""The proof of a machine on EC2: a request to STS, signed by the machine's role, that only the control plane sends."""

from collections.abc import Mapping

from det_controlplane.core.agent_protocol import STS_BODY, sts_headers, sts_host

from det_agent.credentials import json_object, role_credentials
from det_agent.metadata import AwsMetadata

KIND = "aws_sts"


def aws_proof(nonce: str) -> Mapping[str, str]:
    """Return the proof for a join. Raises OSError, which says what the machine lacks."""
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
        "kind": KIND,
        "region": region,
        "date": request.headers["X-Amz-Date"],
        "session_token": request.headers["X-Amz-Security-Token"],
        "authorization": request.headers["Authorization"],
        "document": document,
    }
