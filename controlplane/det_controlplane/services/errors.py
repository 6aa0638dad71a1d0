"""The refusals of use cases, in the product's words. The API translates each into one status."""

from typing import TypeVar

T = TypeVar("T")


class Refused(Exception):
    """Base of every refusal; the message names cause, id and the way out."""


class Missing(Refused):
    """The thing does not exist."""


class Invalid(Refused):
    """The request makes no sense as it is."""


class WrongState(Refused):
    """The thing is not in a state that allows this."""


class Taken(Refused):
    """Another object or process holds the name, identity or epoch."""


class Forbidden(Refused):
    """The caller may not do this."""


class NotSignedIn(Refused):
    """The credentials are missing, wrong or expired."""


class Unready(Refused):
    """The request depends on something that has not happened yet: try again."""


class Unfinished(Unready):
    """A part of the work is done. The next part follows in a second."""


class DeletionsHeld(Unready):
    """Stored files are not deleted now, because a backup is copying them."""


class Unreachable(Refused):
    """The target of the request does not answer (yet)."""


class Busy(Refused):
    """The service is busy with other requests of the kind: try again in a moment."""


class Oversized(Refused):
    """The request is too large for this route."""


def require(thing: T | None, what: str) -> T:
    if thing is None:
        raise Missing(f"{what} not found")
    return thing


def require_open(what: str, *, archived: bool, deleting: bool) -> None:
    """Refuse new objects in an archived workspace or project."""
    if archived:
        raise WrongState(f"{what} is archived: unarchive it, or choose another")
    if deleting:
        raise WrongState(f"{what} is being deleted, or could not be deleted: choose another")
