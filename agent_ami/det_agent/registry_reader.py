"""Read manifests and blobs of an image registry, large blobs in ranges over several connections."""

import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import requests
from requests.adapters import HTTPAdapter

CONNECTIONS = 8
RANGE_BYTES = 8 * 1024**2
# Snapshotters of containerd that start a container before its layers are there.
LAZY_DRIVERS = ("stargz", "soci", "nydus")
_TRIES = 3
_TIMEOUT_S = (5.0, 30.0)  # to connect, and between bytes
_MOST_MANIFEST_BYTES = 4 * 1024**2
_INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class Unsuitable(Exception):
    """This image, registry or engine gains nothing from ranges, or does not allow them."""


@dataclass(frozen=True)
class Source:
    """A repository of a registry, with the credentials for it."""

    url: str  # of the registry
    repository: str
    reference: str
    username: str = ""
    password: str = ""


def split_name(image: str) -> tuple[str, str, str]:
    """Return the registry, the repository, and the tag or digest of an image, with the engine's defaults."""
    rest, _, digest = image.partition("@")
    first, slash, path = rest.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    registry, rest = (first, path) if is_host else ("docker.io", rest)
    repository, _, tag = rest.partition(":")
    if registry == "docker.io" and "/" not in repository:
        repository = f"library/{repository}"
    return registry, repository, digest or tag or "latest"


def source_of(image: str, engine_info: Mapping[str, Any], auth: Mapping[str, str] | None) -> Source:
    """Return where an engine would pull an image from. Raises Unsuitable."""
    driver = str(engine_info.get("Driver", ""))
    if driver in LAZY_DRIVERS:
        raise Unsuitable(f"the engine's snapshotter {driver} loads layers on demand")
    registry, repository, reference = split_name(image)
    settings = (engine_info.get("RegistryConfig") or {}).get("IndexConfigs") or {}
    if (settings.get(registry) or {}).get("Mirrors"):
        raise Unsuitable(f"the engine has a mirror of {registry}")
    if (auth or {}).get("identitytoken"):
        raise Unsuitable("the registry needs an identity token")
    host = "registry-1.docker.io" if registry == "docker.io" else registry
    is_local = registry.startswith(("127.", "localhost:")) or registry == "localhost"
    is_plain = is_local or (settings.get(registry) or {}).get("Secure") is False
    known = auth or {}
    return Source(
        f"http{'' if is_plain else 's'}://{host}",
        repository,
        reference,
        known.get("username") or "",
        known.get("password") or "",
    )


class RemoteRepository:
    """Read manifests and blobs of a repository. Raises OSError (of requests) or Unsuitable."""

    def __init__(self, source: Source, connections: int = CONNECTIONS) -> None:
        self._source = source
        self._session = requests.Session()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=4 * connections))
        self._authorization = ""
        self._manifests: dict[str, requests.Response] = {}
        self._lock = threading.Lock()
        self.connections = connections

    def get(
        self, kind: str, name: str, headers: Mapping[str, str], *, stream: bool = False
    ) -> requests.Response:
        url = f"{self._source.url}/v2/{self._source.repository}/{kind}/{name}"
        for is_retry in (False, True):
            used = self._authorization
            # `requests` removes this header if the registry redirects to the host of an object store.
            with_login = {**headers, **({"Authorization": used} if used else {})}
            response = self._session.get(url, headers=with_login, stream=stream, timeout=_TIMEOUT_S)
            if response.status_code == 401 and not is_retry:
                self._sign_in(response, used)
                continue
            response.raise_for_status()
            return response
        raise AssertionError("unreachable")

    def manifest(self, reference: str) -> tuple[str, Mapping[str, Any]]:
        """Return the digest and the content of a manifest or an index."""
        response = self.manifest_response(reference)
        return response.headers.get("Docker-Content-Digest", ""), response.json()

    def manifest_response(self, reference: str) -> requests.Response:
        """Return the registry's response for a manifest, of an earlier request if possible.

        Docker Hub counts and limits requests of manifests.
        """
        if reference not in self._manifests:
            accepted = ", ".join((*_INDEX_TYPES, *_MANIFEST_TYPES))
            response = self.get("manifests", reference, {"Accept": accepted})
            if len(response.content) > _MOST_MANIFEST_BYTES:
                raise Unsuitable("the manifest is too large")
            digest = response.headers.get("Docker-Content-Digest", reference)
            self._manifests[reference] = self._manifests[digest] = response
        return self._manifests[reference]

    def _sign_in(self, response: requests.Response, used: str) -> None:
        with self._lock:
            if self._authorization != used:
                return  # another thread has a new token
            scheme, _, rest = response.headers.get("WWW-Authenticate", "").partition(" ")
            fields = dict(_CHALLENGE.findall(rest))
            login = (
                (self._source.username, self._source.password) if self._source.username else None
            )
            if scheme.lower() == "basic" and login:
                self._authorization = str(
                    requests.Request("GET", self._source.url, auth=login).prepare().headers["Authorization"]
                )  # fmt: skip
                return
            if scheme.lower() != "bearer" or "realm" not in fields:
                raise Unsuitable("the registry asks for an unknown kind of login")
            query = {"scope": f"repository:{self._source.repository}:pull"}
            query |= {"service": fields["service"]} if "service" in fields else {}
            answer = self._session.get(
                fields["realm"], params=query, auth=login, timeout=_TIMEOUT_S
            )
            answer.raise_for_status()
            token = answer.json().get("token") or answer.json().get("access_token")
            self._authorization = f"Bearer {token}"


def blob(
    remote: RemoteRepository, pool: ThreadPoolExecutor, digest: str
) -> tuple[int, Iterator[bytes]]:
    """Return the size and the parts of a blob, in order. The parts arrive over several connections."""
    first = remote.get("blobs", digest, {"Range": f"bytes=0-{RANGE_BYTES - 1}"})
    if first.status_code != 206:
        return len(first.content), iter((first.content,))
    size = int(first.headers["Content-Range"].rpartition("/")[2])
    return size, _parts(remote, pool, digest, first.content, size)


def _parts(
    remote: RemoteRepository, pool: ThreadPoolExecutor, digest: str, first: bytes, size: int
) -> Iterator[bytes]:
    starts = iter(range(len(first), size, RANGE_BYTES))
    waiting: deque[Future[bytes]] = deque()
    try:
        for start in starts:
            waiting.append(
                pool.submit(_range, remote, digest, start, min(start + RANGE_BYTES, size))
            )
            if len(waiting) >= 2 * remote.connections:
                break
        yield first
        while waiting:
            yield waiting.popleft().result()
            for start in starts:
                waiting.append(
                    pool.submit(_range, remote, digest, start, min(start + RANGE_BYTES, size))
                )
                break
    finally:
        for future in waiting:
            future.cancel()


def _range(remote: RemoteRepository, digest: str, start: int, end: int) -> bytes:
    for left in reversed(range(_TRIES)):
        try:
            response = remote.get("blobs", digest, {"Range": f"bytes={start}-{end - 1}"})
            if response.status_code == 206 and len(response.content) == end - start:
                return response.content
            raise OSError(f"the registry answered {len(response.content)} bytes for a range")
        except OSError:
            if not left:
                raise
    raise AssertionError("unreachable")
