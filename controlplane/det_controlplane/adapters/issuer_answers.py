"""Cache the answers of issuers for an hour, and their failures for a few seconds."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from det_controlplane.ports.compute import Unreachable
from det_controlplane.ports.identity import IssuersBusy

_ANSWER_LIFETIME_S = 3600.0
_FAILURE_LIFETIME_S = 5.0

T = TypeVar("T")
Describe = Callable[[str], Mapping[str, Any]]
Post = Callable[
    [str, str, Mapping[str, str], tuple[str, str] | None], tuple[int, Mapping[str, Any]]
]


class AnswerCache(Generic[T]):
    """A cache with one answer per issuer.

    No lock is held during a request, and a failed issuer is not asked again for a few seconds. Other callers are
    therefore not blocked by a slow issuer."""

    def __init__(self, ask: Callable[[str], T], now: Callable[[], float]) -> None:
        self._ask, self._now = ask, now
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[float, T]] = {}
        self._failures: dict[str, tuple[float, str]] = {}

    def get_cached(self, issuer: str, within_s: float = _ANSWER_LIFETIME_S) -> T | None:
        """Return the cached answer if it is younger than `within_s`, or None."""
        with self._lock:
            at, answer = self._answers.get(issuer, (float("-inf"), None))
        return answer if self._now() - at < min(within_s, _ANSWER_LIFETIME_S) else None

    def fetch(self, issuer: str) -> T:
        """Ask the issuer and cache the answer. Raises Unreachable."""
        with self._lock:
            failed_at, cause = self._failures.get(issuer, (float("-inf"), ""))
        if self._now() - failed_at < _FAILURE_LIFETIME_S:
            raise Unreachable(cause)
        try:
            answer = self._ask(issuer)
        except IssuersBusy:
            raise
        except Unreachable as e:
            with self._lock:
                self._failures[issuer] = (self._now(), str(e))
            raise
        with self._lock:
            self._answers[issuer] = (self._now(), answer)
        return answer


class CachedIssuers:
    """Implements `ports.issuer_tokens.Issuers`."""

    def __init__(
        self, describe: Describe, post: Post, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._post = post
        self._described = AnswerCache(describe, now)

    def described(self, issuer: str) -> Mapping[str, Any]:
        cached = self._described.get_cached(issuer)
        return self._described.fetch(issuer) if cached is None else cached

    def posted(
        self, issuer: str, url: str, form: Mapping[str, str], secret: tuple[str, str] | None
    ) -> tuple[int, Mapping[str, Any]]:
        return self._post(issuer, url, form, secret)
