"""The metadata service of a machine on EC2, version 2."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping

_TIMEOUT_S = 5.0
_TOKEN_LIFE_S = 3600
_TOKEN_EXPIRED = 401
# The metadata service is on this machine: a proxy would reach another one's.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Ec2Metadata:
    """Reads values. The service wants a token, which a request that a program was tricked into cannot get."""

    def __init__(self) -> None:
        given = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254")
        self._url = f"{given.rstrip('/')}/latest/"
        self._token = ""

    def get(self, path: str) -> str:
        """Return a value. Raises FileNotFoundError where the machine has none, and OSError without a service."""
        try:
            return self._read(path)
        except urllib.error.HTTPError as e:
            with e:
                if e.code == 404:
                    raise FileNotFoundError(f"the metadata service has no {path}") from None
                raise OSError(f"the metadata service answered {e.code} to {path}") from None

    def _read(self, path: str) -> str:
        if self._token:
            try:
                return self._call("GET", path, {"X-aws-ec2-metadata-token": self._token})
            except urllib.error.HTTPError as e:
                if e.code != _TOKEN_EXPIRED:
                    raise
                e.close()
        life = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_LIFE_S)}
        self._token = self._call("PUT", "api/token", life)
        return self._call("GET", path, {"X-aws-ec2-metadata-token": self._token})

    def _call(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        request = urllib.request.Request(self._url + path, method=method, headers=dict(headers))
        with _direct.open(request, timeout=_TIMEOUT_S) as answer:
            return str(answer.read().decode())


def read_object(text: str) -> Mapping[str, str]:
    """Read a value that is a JSON object. Raises OSError when it is not."""
    try:
        read = json.loads(text)
    except ValueError as e:
        raise OSError(f"the metadata service is not EC2's: {e}") from e
    if not isinstance(read, dict):
        raise OSError(f"the metadata service is not EC2's: it says {text[:80]!r}")
    return read
