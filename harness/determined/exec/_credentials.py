"""Make the machine's cloud credentials available to programs in the container, through the agent.

Cloud libraries accept credentials over plain HTTP only from the loopback address. A thread of the entry script
therefore serves them there, in the formats of the clouds' metadata services. It gets them from the agent, using
this container's token.
"""

import http.server
import json
import secrets
import threading
import time
from typing import Any, Dict, Mapping, Tuple
from urllib.parse import parse_qs, urlsplit

from determined.common.http import APIError, MasterUnreachableError, Session

CLOUDS_VARIABLE = "DET_MACHINE_CREDENTIALS"
AGENT_PATH = "/det-agent/credentials/"
_TIMEOUT_S = 10.0
_AWS = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
_GCP = ("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP")
_NAMES = {"aws": _AWS, "gcp": _GCP}
_AWS_PATH = "/aws"
_FLAVOR = {"Metadata-Flavor": "Google"}
_ACCOUNTS = "/computeMetadata/v1/instance/service-accounts/"

Answer = Tuple[int, str, Mapping[str, str]]


def add_credentials(env: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment with variables for the machine's credentials. The task's own settings take precedence."""
    enabled = env.get(CLOUDS_VARIABLE, "").split(",")
    clouds = [c for c in _NAMES if c in enabled and not any(name in env for name in _NAMES[c])]
    if not clouds:
        return dict(env)
    server = _CredentialServer(env)
    address = server.start()
    added: Dict[str, str] = {}
    if "aws" in clouds:
        added[_AWS[0]] = f"http://{address}{_AWS_PATH}"
        added["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = server.password
    if "gcp" in clouds:
        added.update(dict.fromkeys(_GCP, address))
    return {**env, **added, **_proxy_exception(env)}


def _proxy_exception(env: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables that exclude the loopback address from a configured proxy."""
    if not any(name in env for name in ("http_proxy", "HTTP_PROXY")):
        return {}
    exceptions = env.get("no_proxy") or env.get("NO_PROXY") or ""
    return dict.fromkeys(
        ("no_proxy", "NO_PROXY"), ",".join(p for p in (exceptions, "127.0.0.1") if p)
    )


class _CredentialServer:
    def __init__(self, env: Mapping[str, str]) -> None:
        self.password = secrets.token_urlsafe(24)
        authorization = {"Authorization": f"Bearer {env['DET_SESSION_TOKEN']}"}
        self._last: Dict[
            str, Tuple[float, Dict[str, Any]]
        ] = {}  # the last response and its time, by cloud
        self._agent = Session(env["DET_MASTER"], authorization, retries=0, timeout_s=_TIMEOUT_S)

    def start(self) -> str:
        """Serve requests in a daemon thread. Return the host and port."""
        handler = type("BoundHandler", (_Handler,), {"credentials": self})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, name="credentials", daemon=True).start()
        return f"127.0.0.1:{server.server_address[1]}"

    def answer(self, target: str, headers: Mapping[str, str]) -> Answer:
        try:
            if target == _AWS_PATH:
                return self._as_container_credentials(headers)
            return self._as_google_metadata(target, headers)
        except APIError as e:
            return 503, json.dumps({"message": e.message}), {}
        except (MasterUnreachableError, ValueError) as e:
            return 503, json.dumps({"message": f"the agent does not answer: {e}"}), {}

    def _as_container_credentials(self, headers: Mapping[str, str]) -> Answer:
        if not secrets.compare_digest(headers.get("authorization", ""), self.password):
            return 401, json.dumps({"message": "AWS_CONTAINER_AUTHORIZATION_TOKEN is missing"}), {}
        credentials = self._ask("aws")
        names = ("AccessKeyId", "SecretAccessKey", "Token", "Expiration")
        fields = {name: credentials[name] for name in names if name in credentials}
        return 200, json.dumps(fields), {}

    def _as_google_metadata(self, target: str, headers: Mapping[str, str]) -> Answer:
        parts = urlsplit(target)
        if parts.path in ("", "/"):  # libraries check whether they run on Google Cloud
            return 200, "computeMetadata/\n", _FLAVOR
        if headers.get("metadata-flavor") != "Google":
            return 403, "Missing Metadata-Flavor:Google header.", _FLAVOR
        text = _account_metadata(parts.path, "recursive" in parse_qs(parts.query), self._ask("gcp"))
        return (404, "", _FLAVOR) if text is None else (200, text, _FLAVOR)

    def _ask(self, cloud: str) -> Dict[str, Any]:
        """Return the machine's credentials. While the agent is away, return its last response until that expires."""
        try:
            credentials: Dict[str, Any] = self._agent.get(AGENT_PATH + cloud)
        except MasterUnreachableError:
            if cloud not in self._last:
                raise
            return _with_remaining_time(*self._last[cloud])
        self._last[cloud] = (time.monotonic(), credentials)
        return credentials


def _with_remaining_time(answered_at: float, credentials: Dict[str, Any]) -> Dict[str, Any]:
    """Reduce `expires_in` by the age of the response. AWS has an absolute `Expiration` instead."""
    if "expires_in" not in credentials:
        return credentials
    remaining_s = int(credentials["expires_in"] - (time.monotonic() - answered_at))
    if remaining_s <= 0:
        raise ValueError("its last credentials have expired")
    return {**credentials, "expires_in": remaining_s}


def _account_metadata(
    path: str, is_recursive: bool, credentials: Mapping[str, Any]
) -> "str | None":
    """Return the text that Google's metadata server returns for a path. Identity tokens are not supported."""
    if path == "/computeMetadata/v1/project/project-id":
        return str(credentials["project"])
    if not path.startswith(_ACCOUNTS):
        return None
    name, _, field = path[len(_ACCOUNTS) :].partition("/")
    if name not in ("default", credentials["email"]):
        return None if name else "default/\n"
    if field == "token":
        names = ("access_token", "expires_in", "token_type")
        return json.dumps({key: credentials[key] for key in names if key in credentials})
    email, scopes = credentials["email"], credentials["scopes"]
    if not field and is_recursive:
        return json.dumps({"aliases": ["default"], "email": email, "scopes": scopes})
    return {"email": str(email), "scopes": "\n".join(scopes)}.get(field)


class _Handler(http.server.BaseHTTPRequestHandler):
    credentials: _CredentialServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, text, more = self.credentials.answer(self.path, headers)
        body = text.encode()
        self.send_response_only(status)
        is_json = body[:1] == b"{"
        self.send_header("Content-Type", "application/json" if is_json else "application/text")
        for name, value in more.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Discard the message, because it is not output of the task."""
