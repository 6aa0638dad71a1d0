"""Lend the roles of the machine to what runs in its container, by way of the agent.

Libraries of clouds take credentials over plain HTTP from their own loopback address only. So a thread of the entry
answers there, as the metadata services of clouds do, with what the agent tells the token of this container.
"""

import http.server
import json
import secrets
import threading
import time
from typing import Any, Dict, Mapping, Tuple
from urllib.parse import parse_qs, urlsplit

from determined.common.http import APIError, MasterUnreachableError, Session

LENT = "DET_MACHINE_CREDENTIALS"
AGENT_PATH = "/det-agent/credentials/"
_TIMEOUT_S = 10.0
_AWS = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
_GCP = ("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP")
_NAMES = {"aws": _AWS, "gcp": _GCP}
_AWS_PATH = "/aws"
_FLAVOR = {"Metadata-Flavor": "Google"}
_ACCOUNTS = "/computeMetadata/v1/instance/service-accounts/"

Answer = Tuple[int, str, Mapping[str, str]]


def lend(env: Mapping[str, str]) -> Dict[str, str]:
    """Return an environment in which the libraries of clouds find the machine's roles; a task's own settings win."""
    lent = env.get(LENT, "").split(",")
    clouds = [c for c in _NAMES if c in lent and not any(name in env for name in _NAMES[c])]
    if not clouds:
        return dict(env)
    lender = _CredentialServer(env)
    place = lender.start()
    added: Dict[str, str] = {}
    if "aws" in clouds:
        added[_AWS[0]] = f"http://{place}{_AWS_PATH}"
        added["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = lender.password
    if "gcp" in clouds:
        added.update(dict.fromkeys(_GCP, place))
    return {**env, **added, **_unproxied(env)}


def _unproxied(env: Mapping[str, str]) -> Dict[str, str]:
    """Keep a proxy out of the way to this container's own address."""
    if not any(name in env for name in ("http_proxy", "HTTP_PROXY")):
        return {}
    excepted = env.get("no_proxy") or env.get("NO_PROXY") or ""
    return dict.fromkeys(
        ("no_proxy", "NO_PROXY"), ",".join(p for p in (excepted, "127.0.0.1") if p)
    )


class _CredentialServer:
    def __init__(self, env: Mapping[str, str]) -> None:
        self.password = secrets.token_urlsafe(24)
        signed = {"Authorization": f"Bearer {env['DET_SESSION_TOKEN']}"}
        self._last: Dict[
            str, Tuple[float, Dict[str, Any]]
        ] = {}  # answers by cloud, with their time
        self._agent = Session(env["DET_MASTER"], signed, retries=0, timeout_s=_TIMEOUT_S)

    def start(self) -> str:
        """Answer in a thread that ends with this process; return host and port."""
        handler = type("BoundHandler", (_Handler,), {"lender": self})
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
        lent = self._ask("aws")
        told = ("AccessKeyId", "SecretAccessKey", "Token", "Expiration")
        return 200, json.dumps({name: lent[name] for name in told if name in lent}), {}

    def _as_google_metadata(self, target: str, headers: Mapping[str, str]) -> Answer:
        parts = urlsplit(target)
        if parts.path in ("", "/"):  # libraries look whether they are on Google Cloud
            return 200, "computeMetadata/\n", _FLAVOR
        if headers.get("metadata-flavor") != "Google":
            return 403, "Missing Metadata-Flavor:Google header.", _FLAVOR
        text = _of_account(parts.path, "recursive" in parse_qs(parts.query), self._ask("gcp"))
        return (404, "", _FLAVOR) if text is None else (200, text, _FLAVOR)

    def _ask(self, cloud: str) -> Dict[str, Any]:
        """Return the machine's credentials. While the agent is away, its last answer serves until it expires."""
        try:
            lent: Dict[str, Any] = self._agent.get(AGENT_PATH + cloud)
        except MasterUnreachableError:
            if cloud not in self._last:
                raise
            return _aged(*self._last[cloud])
        self._last[cloud] = (time.monotonic(), lent)
        return lent


def _aged(answered_at: float, lent: Dict[str, Any]) -> Dict[str, Any]:
    """Return an earlier answer with the time that is left of it. `Expiration` of AWS is a point in time."""
    if "expires_in" not in lent:
        return lent
    left_s = int(lent["expires_in"] - (time.monotonic() - answered_at))
    if left_s <= 0:
        raise ValueError("its last credentials have expired")
    return {**lent, "expires_in": left_s}


def _of_account(path: str, whole: bool, lent: Mapping[str, Any]) -> "str | None":
    """Return the answer of Google's metadata server about a machine's account. Identity tokens are not lent."""
    if path == "/computeMetadata/v1/project/project-id":
        return str(lent["project"])
    if not path.startswith(_ACCOUNTS):
        return None
    name, _, what = path[len(_ACCOUNTS) :].partition("/")
    if name not in ("default", lent["email"]):
        return None if name else "default/\n"
    if what == "token":
        kept = ("access_token", "expires_in", "token_type")
        return json.dumps({key: lent[key] for key in kept if key in lent})
    if not what and whole:
        account = {"aliases": ["default"], "email": lent["email"], "scopes": lent["scopes"]}
        return json.dumps(account)
    told = {"email": str(lent["email"]), "scopes": "\n".join(lent["scopes"])}
    return told.get(what)


class _Handler(http.server.BaseHTTPRequestHandler):
    lender: _CredentialServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, text, more = self.lender.answer(self.path, headers)
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
        """Log nothing: this is no output of the task."""
