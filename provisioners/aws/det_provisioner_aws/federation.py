"""Credentials for AWS without a stored key, for a control plane on Google Cloud.

Google's metadata server signs the identity of the service's account. STS exchanges it for an hour's credentials of a
role (`AssumeRoleWithWebIdentity`), if the role trusts the service's account."""

import os
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import boto3
from botocore.credentials import (
    AssumeRoleWithWebIdentityCredentialFetcher,
    CredentialProvider,
    DeferredRefreshableCredentials,
)
from botocore.exceptions import CredentialRetrievalError
from botocore.session import get_session

ROLE_VARIABLE = "DET_AWS_ROLE_ARN"
# The audience of the token. A role's trust policy checks it as `accounts.google.com:oaud`.
AUDIENCE = "determined-serverless"
_METHOD = "google-identity"
_REGION = "us-east-1"  # only for the call to STS
_TIMEOUT_S = 5.0


def session() -> Any:
    """Return a session with the role in DET_AWS_ROLE_ARN, or with the SDK's default credentials."""
    role = os.environ.get(ROLE_VARIABLE, "")
    if not role:
        return boto3.session.Session()
    inner = get_session()
    resolver = inner.get_component("credential_provider")
    resolver.insert_before("env", _ByGoogle(role))
    return boto3.session.Session(botocore_session=inner)


class _ByGoogle(CredentialProvider):  # type: ignore[misc]
    METHOD = CANONICAL_NAME = _METHOD

    def __init__(self, role: str) -> None:
        super().__init__()
        self._role = role

    def load(self) -> Any:
        """Return credentials that are fetched at the first use and renewed before they expire."""
        fetcher = AssumeRoleWithWebIdentityCredentialFetcher(
            client_creator=_sts,
            web_identity_token_loader=identity_token,
            role_arn=self._role,
            extra_args={"RoleSessionName": "determined"},
        )
        return DeferredRefreshableCredentials(fetcher.fetch_credentials, _METHOD)


def _sts(service: str, config: Any = None) -> Any:
    plain: Callable[..., Any] = get_session().create_client
    return plain(service, region_name=_REGION, config=config)


def identity_token() -> str:
    """Return the identity token of this service, signed by Google. Raises CredentialRetrievalError."""
    host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    path = "/computeMetadata/v1/instance/service-accounts/default/identity"
    url = f"http://{host}{path}?{urlencode({'audience': AUDIENCE, 'format': 'full'})}"
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            return str(answer.read().decode())
    except (OSError, urllib.error.HTTPError) as e:
        message = (
            f"Google's metadata server gives no identity token, which {ROLE_VARIABLE} asks for: {e}"
        )
        raise CredentialRetrievalError(provider=_METHOD, error_msg=message) from e
