"""Look up images in container registries with the OCI distribution API."""

import base64
import ipaddress
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from enum import Enum

_TIMEOUT_S = 10.0
_MOST_BYTES = 1024 * 1024
DOCKER_HUB = "docker.io"
_DOCKER_HUB_API = "https://registry-1.docker.io"
# The variable with a mirror of Docker Hub.
MIRROR_VARIABLE = "DET_DOCKER_HUB"
# Without these types a registry converts or hides multi-platform and OCI manifests.
_MANIFEST_TYPES = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_CHALLENGE_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class BadImageName(ValueError):
    """The text is not a valid image name."""


class Existence(Enum):
    FOUND = "found"
    MISSING = "missing"
    DENIED = "denied"  # the registry does not say whether the image is missing or private
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Lookup:
    """The result of an image lookup. `reason` explains every result except FOUND."""

    existence: Existence
    digest: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Login:
    username: str
    password: str

    @property
    def header(self) -> str:
        pair = f"{self.username}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


@dataclass(frozen=True)
class ImageName:
    """The parts of an image name, with the same defaults as in container engines."""

    registry: str
    repository: str
    tag: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> "ImageName":
        """Return the parts of a name. Raises BadImageName."""
        rest, _, digest = text.partition("@")
        first, slash, path = rest.partition("/")
        is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
        registry, rest = (first, path) if is_host else (DOCKER_HUB, rest)
        repository, _, tag = rest.partition(":")
        if registry in ("index.docker.io", DOCKER_HUB):
            registry = DOCKER_HUB
            repository = repository if "/" in repository else f"library/{repository}"
        if not _REPOSITORY.fullmatch(repository):
            raise BadImageName(f"{text!r} is not a valid image name")
        if (":" in rest and not _TAG.fullmatch(tag)) or (
            "@" in text and not _DIGEST.fullmatch(digest)
        ):
            raise BadImageName(f"{text!r} does not have a valid tag or digest")
        return cls(registry, repository, tag or ("" if digest else "latest"), digest)

    @property
    def manifest_url(self) -> str:
        return f"{self._api_url}/v2/{self.repository}/manifests/{self.digest or self.tag}"

    @property
    def _api_url(self) -> str:
        if self.registry == DOCKER_HUB:
            return (os.environ.get(MIRROR_VARIABLE) or _DOCKER_HUB_API).rstrip("/")
        # Container engines use plain HTTP for registries on the local machine.
        scheme = "http" if _is_loopback(self.registry) else "https"
        return f"{scheme}://{self.registry}"


@dataclass(frozen=True)
class _Response:
    status: int
    headers: Message
    body: bytes


def look_up(name: ImageName, login: Login | None = None) -> Lookup:
    """Look up an image. The result is UNKNOWN if the registry cannot be reached."""
    try:
        response = _head(name.manifest_url, "")
        if response.status == 401:
            authorization = _authorization(name, response.headers, login)
            if authorization:
                response = _head(name.manifest_url, authorization)
    except (OSError, ValueError) as e:
        # URLError wraps the cause; its own text repeats the word "urlopen".
        return Lookup(Existence.UNKNOWN, reason=f"{name.registry} cannot be reached ({_cause(e)})")
    return _result(name, response)


def _result(name: ImageName, response: _Response) -> Lookup:
    status = response.status
    if status == 200:
        return Lookup(Existence.FOUND, response.headers.get("Docker-Content-Digest", ""))
    if status == 404:
        return Lookup(Existence.MISSING, reason=f"{name.registry} answers 404")
    if status in (401, 403):
        reason = (
            f"{name.registry} answers {status}: the repository does not exist, or needs a login"
        )
        return Lookup(Existence.DENIED, reason=reason)
    if status == 429:
        reason = f"{name.registry} answers 429: too many requests came from this address"
        return Lookup(Existence.UNKNOWN, reason=reason)
    return Lookup(Existence.UNKNOWN, reason=f"{name.registry} answers {status}")


def _authorization(name: ImageName, headers: Message, login: Login | None) -> str:
    """Return the Authorization header for a challenge, or '' if the registry allows no anonymous access."""
    scheme, _, rest = headers.get("WWW-Authenticate", "").partition(" ")
    parameters = dict(_CHALLENGE_PARAMETER.findall(rest))
    if scheme.lower() == "basic":
        return login.header if login else ""
    if scheme.lower() != "bearer" or "realm" not in parameters:
        return ""
    return _bearer(name, parameters, login)


def _bearer(name: ImageName, challenge: Mapping[str, str], login: Login | None) -> str:
    """Return a token of the registry's token server, which issues anonymous tokens for public repositories."""
    realm = challenge["realm"]
    if not realm.startswith("https://") and not _is_loopback(urllib.parse.urlsplit(realm).netloc):
        raise ValueError(f"its token server {realm} does not use HTTPS")
    query = {"scope": challenge.get("scope") or f"repository:{name.repository}:pull"}
    if "service" in challenge:
        query["service"] = challenge["service"]
    url = f"{realm}{'&' if '?' in realm else '?'}{urllib.parse.urlencode(query)}"
    response = _request("GET", url, login.header if login else "")
    if response.status in (401, 403):
        return ""  # the repository is private or does not exist, as the 401 of the manifest also reports
    if response.status != 200:
        raise ValueError(f"its token server answers {response.status}")
    content = json.loads(response.body)
    token = (
        content.get("token") or content.get("access_token") if isinstance(content, dict) else None
    )
    if not token:
        raise ValueError("its token server sent no token")
    return f"Bearer {token}"


def _head(url: str, authorization: str) -> _Response:
    return _request("HEAD", url, authorization)


def _request(method: str, url: str, authorization: str) -> _Response:
    """Send a request and return the response with any HTTP status. Raises OSError."""
    request = urllib.request.Request(url, method=method, headers={"Accept": _MANIFEST_TYPES})
    if authorization:
        # An unredirected header is not sent to the host of a redirect.
        request.add_unredirected_header("Authorization", authorization)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            return _Response(response.status, response.headers, response.read(_MOST_BYTES))
    except urllib.error.HTTPError as e:
        with e:
            return _Response(e.code, e.headers, b"")


def _is_loopback(host_and_port: str) -> bool:
    host = host_and_port.rpartition(":")[0] or host_and_port
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _cause(error: Exception) -> str:
    return str(getattr(error, "reason", "") or error)
