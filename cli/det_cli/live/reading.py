"""What all readers of states share: parts that a cluster lacks, or that the caller may not see."""

from collections.abc import Mapping
from typing import Any

from determined.common.http import APIError, Session
from determined.common.pages import V1


class Parts:
    """Ask for parts of a picture. What is refused is left out, and told once in `hidden`."""

    def __init__(self, session: Session) -> None:
        self._session = session
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
