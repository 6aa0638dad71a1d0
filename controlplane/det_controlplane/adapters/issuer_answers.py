"""What issuers offer, kept for an hour."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

_KEPT_S = 3600.0

Describe = Callable[[str], Mapping[str, Any]]
Post = Callable[
    [str, str, Mapping[str, str], tuple[str, str] | None], tuple[int, Mapping[str, Any]]
]


class KeptIssuers:
    """Implements `ports.issuer_tokens.Issuers`."""

    def __init__(
        self, describe: Describe, post: Post, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._describe, self._post, self._now = describe, post, now
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, Mapping[str, Any]]] = {}

    def described(self, issuer: str) -> Mapping[str, Any]:
        with self._lock:
            at, found = self._kept.get(issuer, (float("-inf"), {}))
            if self._now() - at >= _KEPT_S:
                found = self._describe(issuer)
                self._kept[issuer] = (self._now(), found)
            return found

    def posted(
        self, issuer: str, url: str, form: Mapping[str, str], secret: tuple[str, str] | None
    ) -> tuple[int, Mapping[str, Any]]:
        return self._post(issuer, url, form, secret)
