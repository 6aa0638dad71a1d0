"""Google's metadata server, as far as a service asks it for tokens that name it to another service."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ACCOUNT_PATH = "/computeMetadata/v1/instance/service-accounts/default/"
IDENTITY = f"{ACCOUNT_PATH}identity"
ACCOUNT = {"email": "api@project.iam.gserviceaccount.com", "scopes": [], "aliases": ["default"]}


@dataclass
class FakeMetadata:
    """Where it listens, and which audiences tokens were asked for."""

    host: str
    audiences: list[str] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {"GCE_METADATA_HOST": self.host, "GCE_METADATA_ROOT": self.host}


def identity_token(audience: str) -> str:
    """Return a token with the claims of Google's, and no signature."""
    claims = {"aud": audience, "exp": int(time.time()) + 3600, "iat": int(time.time())}
    parts = [{"alg": "RS256", "typ": "JWT"}, claims]
    encoded = [base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
    return ".".join([*encoded, "c2lnbmF0dXJl"])


@contextmanager
def metadata_server() -> Iterator[FakeMetadata]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            known = asked.path == IDENTITY and self.headers["Metadata-Flavor"] == "Google"
            audience = parse_qs(asked.query).get("audience", [""])[0]
            if known:
                fake.audiences.append(audience)
            body = (identity_token(audience) if known else json.dumps(ACCOUNT)).encode()
            self.send_response(200 if known or asked.path == ACCOUNT_PATH else 404)
            self.send_header("Content-Type", "text/plain" if known else "application/json")
            self.send_header("Metadata-Flavor", "Google")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake = FakeMetadata(f"127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
