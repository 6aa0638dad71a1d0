"""Create objects with unique names, so that a lost response is no failure."""

from typing import Any, Callable, Dict

from determined.common.http import ConflictError, Session


def create(
    session: Session,
    path: str,
    body: Dict[str, Any],
    key: str,
    existing: Callable[[], Dict[str, Any]],
) -> Dict[str, Any]:
    """Create an object and return it.

    If the response to the request was lost, its retry is refused because the name exists. The object is then read by
    its name, and returned if this user created it. Raises ConflictError for the object of another user.
    """
    try:
        return dict(session.post(path, body)[key])
    except ConflictError as e:
        if not e.after_lost_response:
            raise
        found = existing()
        creator = found.get("username")
        if key != "user" and creator != getattr(session, "username", ""):
            raise
        return found
