"""Google's metadata server, as far as a service asks it for tokens: of its account, and to name itself to others."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.support.threaded import serving

INSTANCE = "/computeMetadata/v1/instance"
PROJECT_PATH = "/computeMetadata/v1/project/project-id"
ACCOUNT_PATH = f"{INSTANCE}/service-accounts/default/"
IDENTITY = f"{ACCOUNT_PATH}identity"
ACCOUNT = {"email": "api@project.iam.gserviceaccount.com", "scopes": [], "aliases": ["default"]}


@dataclass
class FakeMetadata:
    """A metadata service: where it listens, for which audiences tokens were asked, and how they are made."""

    host: str
    audiences: list[str] = field(default_factory=list)
    token_for: Callable[[str], str] = lambda audience: identity_token(audience)

    @property
    def environment(self) -> dict[str, str]:
        names = ("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP")
        return dict.fromkeys(names, self.host)


def identity_token(audience: str) -> str:
    """Return a token with the claims of Google's, and no signature."""
    claims = {"aud": audience, "exp": int(time.time()) + 3600, "iat": int(time.time())}
    parts = [{"alg": "RS256", "typ": "JWT"}, claims]
    encoded = [base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
    return ".".join([*encoded, "c2lnbmF0dXJl"])


def _told(path: str) -> object:
    """Return the value at a path: a text, an object, or None."""
    if path == PROJECT_PATH:
        return "acme"
    if path in (ACCOUNT_PATH, f"{INSTANCE}/service-accounts/{ACCOUNT['email']}/"):
        return ACCOUNT
    if path.startswith(f"{INSTANCE}/service-accounts/") and path.endswith("/token"):
        return {"access_token": "token", "expires_in": 3600, "token_type": "Bearer"}
    return "" if path in ("/", "/computeMetadata/v1/instance/") else None


@contextmanager
def metadata_server() -> Iterator[FakeMetadata]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            audience = parse_qs(url.query).get("audience", [""])[0]
            value = _told(url.path)
            if url.path == IDENTITY:
                fake.audiences.append(audience)
                value = fake.token_for(audience)
            is_text = isinstance(value, str)
            body = (value if isinstance(value, str) else json.dumps(value)).encode()
            self.send_response(404 if value is None else 200)
            self.send_header("Content-Type", "text/plain" if is_text else "application/json")
            self.send_header("Metadata-Flavor", "Google")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake = FakeMetadata(f"127.0.0.1:{server.server_port}")
    with serving(server):
        yield fake
