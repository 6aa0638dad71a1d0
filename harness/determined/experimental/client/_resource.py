"""The base class of the SDK's objects: a session, an API path, and attributes from the API."""

import abc
from typing import Any, Dict, Optional

from determined.common.http import Session


class Resource(abc.ABC):
    """An object of the cluster. Its attributes have the values of the last `reload`."""

    _session: Session
    _key: str  # the key of the object in API responses

    @property
    @abc.abstractmethod
    def _path(self) -> str: ...

    @abc.abstractmethod
    def _fill(self, raw: Dict[str, Any]) -> None:
        """Set the attributes from an API response."""

    def reload(self) -> None:
        """Read the attributes from the cluster again."""
        self._fill(self._session.get(self._path)[self._key])

    def _patch(self, **change: Any) -> None:
        self._fill(self._session.patch(self._path, change)[self._key])


class Archivable(Resource):
    """An object that can be hidden from listings without being deleted."""

    archived: Optional[bool]

    def archive(self) -> None:
        """Hide this object from listings, without deleting it."""
        self._session.post(f"{self._path}/archive")
        self.archived = True

    def unarchive(self) -> None:
        """Show this object in listings again."""
        self._session.post(f"{self._path}/unarchive")
        self.archived = False
