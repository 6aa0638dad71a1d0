"""Get credentials for buckets of the other cloud, based on the machine's identity in its own cloud.

No key is stored. AWS gives a role to a Google machine with an identity token of an account that the role trusts. Google
gives an account to an AWS machine with a role that the account trusts: it sends AWS a request that the role signed.
"""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime, timezone
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlencode

from det_controlplane.core.agent_protocol import STS_BODY

from det_agent.credentials import MachineCredentials, account_token, json_object, role_credentials
from det_agent.metadata import AwsMetadata, GcpMetadata
from det_agent.settings import Settings

# The audience of the identity token. The role's trust policy checks it as `accounts.google.com:oaud`.
AUDIENCE = "determined-serverless-machine"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_IDENTITY = f"instance/service-accounts/default/identity?{urlencode({'audience': AUDIENCE, 'format': 'full'})}"
_REGION = "us-east-1"  # only for the call to STS
_TIMEOUT_S = 10.0
_LIFE_S = 3600
_TARGET_HEADER = "x-goog-cloud-target-resource"
_ACCOUNT = re.compile(
    r"/serviceAccounts/(?P<email>[^/@]+@(?P<project>[^/.]+)[^/]*):generateAccessToken$"
)


def role_of_aws(metadata: GcpMetadata, role_arn: str) -> Mapping[str, str]:
    """Return one-hour credentials of an AWS role that trusts this machine's account. Raises OSError."""
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.session import get_session

    token = metadata.get(_IDENTITY)
    if token is None:
        raise OSError("this machine has no service account: give the pool's `service_account`")
    options = Config(
        signature_version=UNSIGNED, connect_timeout=_TIMEOUT_S, read_timeout=_TIMEOUT_S
    )
    try:
        sts = get_session().create_client("sts", region_name=_REGION, config=options)
        answer = sts.assume_role_with_web_identity(
            RoleArn=role_arn,
            RoleSessionName=(metadata.get("instance/name") or "machine").strip(),
            WebIdentityToken=token.strip(),
            DurationSeconds=_LIFE_S,
        )
    except (BotoCoreError, ClientError) as e:
        raise OSError(f"AWS does not give this machine the role {role_arn}: {e}") from e
    keys = answer["Credentials"]
    return {
        "AccessKeyId": keys["AccessKeyId"],
        "SecretAccessKey": keys["SecretAccessKey"],
        "Token": keys["SessionToken"],
        "Expiration": keys["Expiration"].strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def account_of_google(metadata: AwsMetadata, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a one-hour token of a service account that trusts this machine's role. Raises OSError.

    `config` is Google's description of an external account. It contains no secret."""
    document = metadata.get("dynamic/instance-identity/document") or ""
    region = json_object(document, "EC2's").get("region", "")
    url = str(config["service_account_impersonation_url"])
    try:
        federated = _ask(config["token_url"], _exchange(metadata, config, region))
        bearer = {"Authorization": f"Bearer {federated['access_token']}"}
        request = {"scope": [SCOPE], "lifetime": f"{_LIFE_S}s"}
        credentials = _ask(url, json.dumps(request), {**bearer, "Content-Type": "application/json"})
        token, expires = (
            credentials["accessToken"],
            datetime.fromisoformat(_utc(credentials["expireTime"])),
        )
    except (KeyError, TypeError, ValueError, HTTPException) as e:
        raise OSError(f"Google's answer is not what it promises: {e!r}") from e
    account = _ACCOUNT.search(url)
    return {
        "access_token": token,
        "expires_in": int((expires - datetime.now(timezone.utc)).total_seconds()),
        "token_type": "Bearer",
        "email": account["email"] if account else "default",
        "project": account["project"] if account else "",
        "scopes": [SCOPE],
    }


def _utc(time: str) -> str:
    """Convert a time of Google to the format of Python 3.10: whole seconds and an offset."""
    return f"{time[:19]}+00:00"


def _exchange(metadata: AwsMetadata, config: Mapping[str, Any], region: str) -> str:
    """Return the request with which Google's token service verifies the signature (RFC 8693)."""
    subject = _signed_identity(role_credentials(metadata), region, str(config["audience"]))
    return urlencode(
        {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "audience": config["audience"],
            "scope": SCOPE,
            "subject_token_type": config["subject_token_type"],
            "subject_token": quote(json.dumps(subject)),
        }
    )


def _signed_identity(keys: Mapping[str, str], region: str, audience: str) -> Mapping[str, Any]:
    """Sign a request for the caller's identity. It is valid for one identity provider and for a few minutes."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    host = f"sts.{region}.amazonaws.com"
    headers = {"host": host, _TARGET_HEADER: audience}
    request = AWSRequest("POST", f"https://{host}?{STS_BODY}", headers=headers)
    credentials = Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["Token"])
    SigV4Auth(credentials, "sts", region).add_auth(request)
    return {
        "url": request.url,
        "method": "POST",
        "headers": [{"key": name, "value": value} for name, value in request.headers.items()],
    }


def _ask(url: str, body: str, headers: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    request = urllib.request.Request(url, body.encode(), dict(headers or {}), method="POST")
    try:
        with urllib.request.build_opener().open(request, timeout=_TIMEOUT_S) as answer:
            response: Mapping[str, Any] = json.loads(answer.read())
            return response
    except urllib.error.HTTPError as e:
        with e:
            error = e.read(2000).decode(errors="replace")
        raise OSError(f"Google gives this machine no account ({e.code} of {url}): {error}") from e


def credentials_of(settings: Settings) -> Mapping[str, MachineCredentials]:
    """Return sources of credentials by cloud. `identity` and `container_credentials` can exclude them."""
    if settings.container_credentials == "none":
        return {}
    sources = {"aws": _on_aws, "gcp": _on_google}.get(settings.identity, lambda _: ())(settings)
    return {credentials.kind: credentials for credentials in sources}


def _on_aws(settings: Settings) -> tuple[MachineCredentials, ...]:
    here = AwsMetadata()
    own = MachineCredentials("aws", lambda: role_credentials(here))
    config = settings.google_credentials
    if not config:
        return (own,)
    return own, MachineCredentials("gcp", lambda: account_of_google(here, config))


def _on_google(settings: Settings) -> tuple[MachineCredentials, ...]:
    here = GcpMetadata()
    own = MachineCredentials("gcp", lambda: account_token(here))
    role = settings.aws_role_arn
    return (own, MachineCredentials("aws", lambda: role_of_aws(here, role))) if role else (own,)
