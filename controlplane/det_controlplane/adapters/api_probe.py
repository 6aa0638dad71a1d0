"""Check whether the API answers at its public address."""

import http.client

_TIMEOUT_S = 5.0  # longer than the first request to a new Lambda function takes


class ApiProbe:
    """Send a health check through the same address that agents use."""

    def __init__(self, public_url: str) -> None:
        self._url = f"{public_url.rstrip('/')}/health"

    def __call__(self) -> bool:
        # Ticks need this module rarely, and its import takes long.
        from urllib.request import urlopen

        try:
            with urlopen(self._url, timeout=_TIMEOUT_S) as response:
                return bool(response.status == http.client.OK)
        except (OSError, ValueError, http.client.HTTPException):
            return False
