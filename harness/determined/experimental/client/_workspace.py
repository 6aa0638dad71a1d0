"""Workspaces, their projects, and their resource pools."""

from typing import Any, Dict, List, Optional
from urllib.parse import quote

from determined.common.http import Session
from determined.common.pages import V1, pages
from determined.experimental.client._creation import create
from determined.experimental.client._experiment import Experiment
from determined.experimental.client._lookup import project_by_name, workspace_by_name
from determined.experimental.client._resource import Archivable, Resource


class Project(Archivable):
    """A group of experiments in a workspace."""

    _key = "project"

    def __init__(self, session: Session, project_id: int) -> None:
        self._session = session
        self.id = project_id
        self.archived: Optional[bool] = None
        self.description: Optional[str] = None
        self.key: Optional[str] = None
        self.n_active_experiments: Optional[int] = None
        self.n_experiments: Optional[int] = None
        self.name: Optional[str] = None
        self.notes: Optional[List[Dict[str, str]]] = None
        self.username: Optional[str] = None
        self.workspace_id: Optional[int] = None

    def __repr__(self) -> str:
        return f"Project(id={self.id}, name={self.name!r})"

    @classmethod
    def _from_json(cls, session: Session, raw: Dict[str, Any]) -> "Project":
        project = cls(session, raw["id"])
        project._fill(raw)
        return project

    def _fill(self, raw: Dict[str, Any]) -> None:
        self.archived = raw["archived"]
        self.description = raw.get("description")
        self.key = raw.get("key")
        self.n_active_experiments = raw["numActiveExperiments"]
        self.n_experiments = raw["numExperiments"]
        self.name = raw["name"]
        self.notes = [dict(note) for note in raw["notes"]]
        self.username = raw["username"]
        self.workspace_id = raw["workspaceId"]

    @property
    def _path(self) -> str:
        return f"{V1}/projects/{self.id}"

    def set_name(self, name: str) -> None:
        self._patch(name=name)

    def set_description(self, description: str) -> None:
        self._patch(description=description)

    def set_key(self, key: str) -> None:
        self._patch(key=key)

    def add_note(self, name: str, contents: str) -> None:
        self.reload()
        self._put_notes([*(self.notes or []), {"name": name, "contents": contents}])

    def remove_note(self, name: str) -> None:
        """Remove the note with this name. Raise ValueError unless exactly one note has it."""
        self.reload()
        notes = self.notes or []
        remaining = [note for note in notes if note["name"] != name]
        if len(notes) - len(remaining) != 1:
            count = len(notes) - len(remaining)
            raise ValueError(f"project {self.id} has {count} notes named {name!r}, not one")
        self._put_notes(remaining)

    def _put_notes(self, notes: List[Dict[str, str]]) -> None:
        body = {"notes": notes, "projectId": self.id}
        self.notes = self._session.put(f"{self._path}/notes", body)["notes"]

    def list_experiments(self) -> List[Experiment]:
        """Return the project's experiments, oldest first."""
        params = {"projectId": self.id, "sortBy": "SORT_BY_ID"}
        rows = pages(self._session, "/experiments", "experiments", params)
        return [Experiment._from_json(self._session, row) for row in rows]


class Workspace(Resource):
    """A group of projects."""

    _key = "workspace"

    def __init__(
        self,
        session: Session,
        workspace_id: Optional[int] = None,
        workspace_name: Optional[str] = None,
    ) -> None:
        if (workspace_id is None) == (workspace_name is None):
            raise ValueError("a workspace is named by its id or by its name: give one of them")
        if workspace_id is not None:
            raw = session.get(f"{V1}/workspaces/{workspace_id}")["workspace"]
        else:
            raw = workspace_by_name(session, str(workspace_name))
        self._session = session
        self._fill(raw)

    @property
    def _path(self) -> str:
        return f"{V1}/workspaces/{self.id}"

    def _fill(self, raw: Dict[str, Any]) -> None:
        self.id: int = raw["id"]
        self.name: str = raw["name"]

    @classmethod
    def _from_json(cls, session: Session, raw: Dict[str, Any]) -> "Workspace":
        workspace = cls.__new__(cls)
        workspace._session = session
        workspace._fill(raw)
        return workspace

    def __repr__(self) -> str:
        return f"Workspace(id={self.id}, name={self.name!r})"

    def list_pools(self) -> List["ResourcePool"]:
        """Return the resource pools that experiments of the workspace may use."""
        path = f"/workspaces/{self.id}/available-resource-pools"
        names = pages(self._session, path, "resourcePools")
        return [ResourcePool(self._session, name) for name in names]

    def create_project(self, name: str, description: Optional[str] = None) -> Project:
        body = {"name": name, "workspaceId": self.id, "description": description or ""}
        raw = create(
            self._session,
            f"{V1}/workspaces/{self.id}/projects",
            body,
            "project",
            lambda: project_by_name(self._session, self.id, self.name, name),
        )
        return Project._from_json(self._session, raw)

    def delete_project(self, name: str) -> None:
        """Delete a project with its experiments."""
        self._session.delete(f"{V1}/projects/{self.get_project(name).id}")

    def list_projects(self) -> List[Project]:
        rows = pages(self._session, f"/workspaces/{self.id}/projects", "projects")
        return [Project._from_json(self._session, row) for row in rows]

    def get_project(self, project_name: str) -> Project:
        raw = project_by_name(self._session, self.id, self.name, project_name)
        return Project._from_json(self._session, raw)


class ResourcePool:
    """A resource pool, the workspaces that it is bound to, and the access to it."""

    def __init__(self, session: Session, name: str = "") -> None:
        self._session = session
        self.name = name

    def __repr__(self) -> str:
        return f"ResourcePool(name={self.name!r})"

    @property
    def _path(self) -> str:
        return f"/resource-pools/{self.name}/workspace-bindings"

    def _change(self, method: str, workspace_names: List[str]) -> None:
        body = {"resourcePoolName": self.name, "workspaceNames": workspace_names}
        self._session.request(method, V1 + self._path, body=body)

    def add_bindings(self, workspace_names: List[str]) -> None:
        self._change("POST", workspace_names)

    def remove_bindings(self, workspace_names: List[str]) -> None:
        self._change("DELETE", workspace_names)

    def replace_bindings(self, workspace_names: List[str]) -> None:
        self._change("PUT", workspace_names)

    def list_workspaces(self) -> List[Optional[str]]:
        """Return the names of the workspaces that the pool is bound to."""
        bound = set(pages(self._session, self._path, "workspaceIds"))
        spaces = pages(self._session, "/workspaces", "workspaces")
        return [space["name"] for space in spaces if space["id"] in bound]

    @property
    def _pool_path(self) -> str:
        return f"{V1}/pools/{quote(self.name, safe='')}"

    def describe(self) -> Dict[str, Any]:
        """Return the pool as the cluster shows it. Administrators also get its settings."""
        pool: Dict[str, Any] = self._session.get(self._pool_path)["pool"]
        return pool

    def update(self, settings: Dict[str, Any], replace_machines: bool = False) -> Dict[str, Any]:
        """Change settings of a pool in the database. None removes a key."""
        body = {"settings": settings, "replaceMachines": replace_machines}
        answer = self._session.request("PATCH", self._pool_path, body=body)
        pool: Dict[str, Any] = answer["pool"]
        return pool

    def delete(self, drain: bool = False, agents_to: Optional[str] = None) -> bool:
        """Delete the pool. Return False if it waits for its work, as `drain` allows."""
        params = {"drain": "true" if drain else None, "agentsTo": agents_to}
        answer = self._session.request("DELETE", self._pool_path, params=params)
        return bool(answer["completed"])

    def adopt(self) -> None:
        """Move the pool from the cluster configuration to the database."""
        self._session.post(f"{self._pool_path}/adopt")

    def list_access(self) -> Dict[str, Any]:
        """Return whether the pool is restricted, and the users and groups that may use it."""
        access: Dict[str, Any] = self._session.get(f"{self._pool_path}/access")["access"]
        return access

    def grant_access(
        self, users: Optional[List[str]] = None, groups: Optional[List[str]] = None
    ) -> None:
        """Let only listed users and groups use the pool, and add some to the list."""
        body = {"users": users or [], "groups": groups or []}
        self._session.post(f"{self._pool_path}/access", body)

    def revoke_access(
        self, users: Optional[List[str]] = None, groups: Optional[List[str]] = None
    ) -> None:
        """Take users and groups off the list. Their queued and running work stays."""
        body = {"users": users or [], "groups": groups or []}
        self._session.post(f"{self._pool_path}/access/revoke", body)

    def open_access(self) -> None:
        """Let everybody use the pool."""
        self._session.request("DELETE", f"{self._pool_path}/access")
