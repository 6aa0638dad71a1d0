"""A control plane in one cloud rents machines in the other cloud without a stored key."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest
from botocore.exceptions import CredentialRetrievalError
from det_provisioner_aws import federation
from det_provisioner_aws.clients import Clients

from tests.support import threaded
from tests.support.google_metadata import FakeMetadata, metadata_server
from tests.support.moto import moto_server

ROLE = "arn:aws:iam::123456789012:role/det-lab-from-google"


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMetadata]:
    with metadata_server() as fake:
        monkeypatch.setenv("GCE_METADATA_HOST", fake.host)
        yield fake


@pytest.mark.usefixtures("no_keys")
def test_google_service_calls_aws_with_the_trusting_role(
    metadata: FakeMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(federation.ROLE_VARIABLE, ROLE)
    with moto_server() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        me = Clients().reading("sts", "us-west-2").get_caller_identity()
    assert me["Arn"] == "arn:aws:sts::123456789012:assumed-role/det-lab-from-google/determined"
    assert metadata.audiences == [federation.AUDIENCE]


@pytest.mark.usefixtures("no_keys")
def test_error_without_metadata_server_names_the_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(federation.ROLE_VARIABLE, ROLE)
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:9")
    with pytest.raises(CredentialRetrievalError, match="DET_AWS_ROLE_ARN asks for"):
        Clients().reading("sts", "us-west-2").get_caller_identity()


class GoogleTokens:
    """Google's token exchange. It records its requests in order."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    @contextmanager
    def serving(self) -> Iterator[str]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"])).decode()
                is_form = "urlencoded" in self.headers["Content-Type"]
                body = parse_qs(content) if is_form else json.loads(content)
                fake.calls.append((self.path, self.headers.get("Authorization", ""), body))
                first = {
                    "access_token": "federated", "expires_in": 3600, "token_type": "Bearer",
                    "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
                }  # fmt: skip
                second = {"accessToken": "of-the-account", "expireTime": "2099-01-01T00:00:00Z"}
                response = json.dumps(first if self.path == "/token" else second).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(response)))
                self.end_headers()
                self.wfile.write(response)

            def log_message(self, *_: object) -> None:
                return None

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        with threaded.serving(server) as address:
            yield address


def test_aws_function_calls_google_with_the_permitted_account(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Google's library reads the file in the zip. Lambda's environment has the role's credentials."""
    import google.auth
    from google.auth.transport.requests import Request

    google_tokens = GoogleTokens()
    account = "det-lab-prov@acme.iam.gserviceaccount.com"
    for name, value in {
        "AWS_ACCESS_KEY_ID": "ASIAROLE", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t",
        "AWS_REGION": "us-west-2", "GOOGLE_CLOUD_PROJECT": "acme",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    with google_tokens.serving() as url:
        path = tmp_path / "gcp-credentials.json"
        path.write_text(json.dumps(credentials_file(url, account)))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        scopes = ["https://www.googleapis.com/auth/cloud-platform"]
        credentials, _ = google.auth.default(scopes=scopes)
        credentials.refresh(Request())
    assert credentials.token == "of-the-account"
    (_, _, exchanged), (impersonated, bearer, _) = google_tokens.calls
    document = json.loads(unquote(exchanged["subject_token"][0]))
    assert document["url"].startswith(
        "https://sts.us-west-2.amazonaws.com?Action=GetCallerIdentity"
    )
    headers = {header["key"].lower(): header["value"] for header in document["headers"]}
    assert "Credential=ASIAROLE/" in headers["authorization"]
    assert (bearer, account in impersonated) == ("Bearer federated", True)


def credentials_file(url: str, account: str) -> dict[str, Any]:
    """Return the output of the Terraform example, with addresses of the fake."""
    provider = "projects/42/locations/global/workloadIdentityPools/det-lab/providers/aws"
    return {
        "type": "external_account",
        "audience": f"//iam.googleapis.com/{provider}",
        "subject_token_type": "urn:ietf:params:aws:token-type:aws4_request",
        "token_url": f"{url}/token",
        "service_account_impersonation_url": f"{url}/v1/projects/-/serviceAccounts/{account}:generateAccessToken",
        "credential_source": {
            "environment_id": "aws1",
            "regional_cred_verification_url": "https://sts.{region}.amazonaws.com"
            "?Action=GetCallerIdentity&Version=2011-06-15",
        },
    }
