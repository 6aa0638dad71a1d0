"""The address of a cluster, as users write it and as it is stored."""

import os
from typing import Mapping, Optional
from urllib.parse import urlsplit

from determined.common.failures import Failure

DEFAULT = "http://localhost:8080"
_WEBUI = "/det"  # the path of the WebUI, which the API does not have


def canonical(address: str) -> str:
    """Return the complete address: `http://host:8080` for `host`, `https://host:443` for `https://host`.

    The WebUI's path is removed."""
    text = address.strip()
    explicit = "://" in text
    parts = urlsplit(text if explicit else f"http://{text}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Failure(
            f"'{address}' is not the address of a cluster",
            "write HOST, HOST:PORT or https://HOST[:PORT]",
        )
    try:
        port = parts.port
    except ValueError as e:
        raise Failure(f"'{address}' has a port that is not a number from 1 to 65535") from e
    if port is None:
        port = {"https": 443, "http": 80}[parts.scheme] if explicit else 8080
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/")
    if path.endswith(_WEBUI):  # users copy the address from their browser
        path = path[: -len(_WEBUI)]
    return f"{parts.scheme}://{host}:{port}{path}"


def chosen(address: Optional[str] = None, env: Optional[Mapping[str, str]] = None) -> str:
    """Return the given address, or the address in the environment, or the default of this machine."""
    env = os.environ if env is None else env
    return canonical(address or env.get("DET_MASTER") or env.get("DET_MASTER_ADDR") or DEFAULT)
