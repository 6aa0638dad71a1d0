"""The proof of a machine on EC2: a request to STS, signed by the machine's role, that only the control plane sends."""

from collections.abc import Mapping

from det_controlplane.core.agent_protocol import STS_BODY, sts_headers, sts_host

from det_agent.metadata_aws import Ec2Metadata, read_object

KIND = "aws_sts"
_CREDENTIALS = "meta-data/iam/security-credentials/"


def aws_proof(nonce: str) -> Mapping[str, str]:
    """Return the proof for a join. Raises OSError, which says what the machine lacks."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    metadata = Ec2Metadata()
    document = metadata.get("dynamic/instance-identity/document")
    region = read_object(document).get("region", "")
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


def _role_credentials(metadata: Ec2Metadata) -> Mapping[str, str]:
    try:
        role = metadata.get(_CREDENTIALS).splitlines()[0]
    except (FileNotFoundError, IndexError):
        raise OSError(
            "this machine has no role, so it cannot prove what it is: "
            "give the pool's `provider.iam_instance_profile_arn`"
        ) from None
    keys = read_object(metadata.get(_CREDENTIALS + role))
    if not keys.keys() >= {"AccessKeyId", "SecretAccessKey", "Token"}:
        said = keys.get("Message") or keys.get("Code") or "nothing"
        raise OSError(f"the metadata service has no credentials of the role {role}: {said}")
    return keys
