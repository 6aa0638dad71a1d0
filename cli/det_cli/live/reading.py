"""Read parts of a cluster's state, some of which it may lack or the caller may not see."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from determined.common.http import APIError, Session
from determined.common.pages import V1


class Parts:
    """Ask for parts of a picture. What is refused is left out, and told once in `hidden`."""

    def __init__(self, session: Session, now: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._now = now
        self._kept: dict[str, tuple[float, Any]] = {}
        self._absent: set[str] = set()
        self.hidden: dict[str, str] = {}

    def get(self, path: str, params: "Mapping[str, Any] | None" = None, *, of: str = "") -> Any:
        """Return an answer; None where the cluster has no such path, or the caller no right to it.

        `of` names the part: once it is absent it is not asked for again."""
        if of and of in self._absent:
            return None
        try:
            return self._session.get(V1 + path, params)
        except APIError as e:
            if e.status not in (403, 404, 501):
                raise
            if of:
                self._absent.add(of)
                if e.status == 403:
                    self.hidden[of] = e.message
            return None

    def seldom(
        self,
        every_s: float,
        path: str,
        params: "Mapping[str, Any] | None" = None,
        *,
        key: str = "",
    ) -> Any:
        """Ask for a part that may be as old as this; nothing where it is refused."""
        name = key or path
        read_at, answer = self._kept.get(name, (float("-inf"), None))
        if self._now() - read_at >= every_s:
            answer = self.get(path, params, of=name) or {}
            self._kept[name] = self._now(), answer
        return answer
