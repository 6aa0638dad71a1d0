"""The base of the SDK's objects: a session, a path at the cluster, and attributes read from there."""

import abc
from typing import Any, Dict, Optional

from determined.common.http import Session


class Resource(abc.ABC):
    """An object of the cluster. Its attributes are those of the last time it was read."""

    _session: Session
    _key: str  # the name of the object in the cluster's answers

    @property
    @abc.abstractmethod
    def _path(self) -> str: ...

    @abc.abstractmethod
    def _fill(self, raw: Dict[str, Any]) -> None:
        """Set the attributes from the cluster's answer."""

    def reload(self) -> None:
        """Read the attributes again from the cluster."""
        self._fill(self._session.get(self._path)[self._key])

    def _patch(self, **change: Any) -> None:
        self._fill(self._session.patch(self._path, change)[self._key])


class Archivable(Resource):
    """An object that can be hidden from listings without deleting it."""

    archived: Optional[bool]

    def archive(self) -> None:
        """Hide this from listings; nothing is deleted."""
        self._session.post(f"{self._path}/archive")
        self.archived = True

    def unarchive(self) -> None:
        """Show this in listings again."""
        self._session.post(f"{self._path}/unarchive")
        self.archived = False
