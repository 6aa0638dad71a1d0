"""Download the code of an experiment, from the response of the cluster or from its object store."""

import base64
import http.client

from determined.common.failures import Failure
from determined.common.http import Session

TIMEOUT_S = 300


def code_of(session: Session, path: str) -> bytes:
    """Download a tar.gz from an API path. Hosts that limit the size of responses return an address instead."""
    answer = session.get(path, {"url": True}) or {}
    url = answer.get("url") or ""
    if not url.startswith(("https://", "http://")):
        return base64.b64decode(answer.get("b64Tgz") or "")
    return fetched(url)


def fetched(url: str) -> bytes:
    """Download from an object store. Unlike API requests, this follows proxies and redirects."""
    import urllib.request  # imported here because it would slow down every start

    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
            archive: bytes = response.read()
    except (OSError, http.client.HTTPException) as e:
        raise Failure(
            f"the object store does not give the code: {e}", "run the command again"
        ) from e
    return archive
