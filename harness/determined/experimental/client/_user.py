"""Users of the cluster."""

from typing import Any, Dict, Optional

from determined.common.http import Session
from determined.common.pages import V1
from determined.common.sign_in import salt_password
from determined.experimental.client._resource import Resource


class User(Resource):
    """A user account of the cluster."""

    _key = "user"

    def __init__(self, user_id: int, session: Session) -> None:
        self.user_id = user_id
        self._session = session
        self.username: Optional[str] = None
        self.display_name: Optional[str] = None
        self.admin: Optional[bool] = None
        self.active: Optional[bool] = None
        self.remote: Optional[bool] = None
        self.agent_uid: Optional[int] = None
        self.agent_gid: Optional[int] = None
        self.agent_user: Optional[str] = None
        self.agent_group: Optional[str] = None

    def __repr__(self) -> str:
        return f"User(user_id={self.user_id}, username={self.username!r})"

    @classmethod
    def _from_json(cls, session: Session, raw: Dict[str, Any]) -> "User":
        user = cls(raw["id"], session)
        user._fill(raw)
        return user

    def _fill(self, raw: Dict[str, Any]) -> None:
        link = raw.get("agentUserGroup") or {}
        self.username = raw["username"]
        self.display_name = raw.get("displayName")
        self.admin = raw["admin"]
        self.active = raw["active"]
        self.remote = raw.get("remote")
        self.agent_uid = link.get("agentUid")
        self.agent_gid = link.get("agentGid")
        self.agent_user = link.get("agentUser")
        self.agent_group = link.get("agentGroup")

    @property
    def _path(self) -> str:
        return f"{V1}/users/{self.user_id}"

    def rename(self, new_username: str) -> None:
        self._patch(username=new_username)

    def activate(self) -> None:
        """Allow the user to sign in again."""
        self._patch(active=True)

    def deactivate(self) -> None:
        """Prevent the user from signing in."""
        self._patch(active=False)

    def change_display_name(self, display_name: str) -> None:
        self._patch(displayName=display_name)

    def change_password(self, new_password: str, current_password: Optional[str] = None) -> None:
        """Set a password. It ends the user's other sessions and access tokens."""
        changes: Dict[str, Any] = {"password": salt_password(new_password), "isHashed": True}
        if current_password is not None:
            changes["currentPassword"] = salt_password(current_password)
        self._patch(**changes)

    def link_with_agent(
        self,
        agent_uid: Optional[int] = None,
        agent_gid: Optional[int] = None,
        agent_user: Optional[str] = None,
        agent_group: Optional[str] = None,
    ) -> None:
        """Run the user's tasks with this user and group of the agents' machines."""
        link = {
            "agentUid": agent_uid,
            "agentGid": agent_gid,
            "agentUser": agent_user,
            "agentGroup": agent_group,
        }
        self._patch(agentUserGroup=link)
