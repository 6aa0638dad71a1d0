"""Read parts of a cluster's state that may be unsupported or forbidden."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from determined.common.http import APIError, Session
from determined.common.pages import V1


class Parts:
    """Reads the parts of a screen. Forbidden parts are omitted and listed in `hidden`."""

    def __init__(self, session: Session, now: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._now = now
        self._kept: dict[str, tuple[float, Any]] = {}
        self._absent: set[str] = set()
        self.hidden: dict[str, str] = {}

    def get(self, path: str, params: "Mapping[str, Any] | None" = None, *, of: str = "") -> Any:
        """Return a response, or None if the route does not exist or is forbidden.

        `of` names the part. A part that was absent once is not requested again."""
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
        """Return a response that is at most `every_s` old, or {} if the part is absent."""
        name = key or path
        read_at, response = self._kept.get(name, (float("-inf"), None))
        if self._now() - read_at >= every_s:
            response = self.get(path, params, of=name) or {}
            self._kept[name] = self._now(), response
        return response
