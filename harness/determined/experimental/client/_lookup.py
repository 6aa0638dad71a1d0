"""Find workspaces and projects by name."""

from typing import Any, Dict

from determined.common.http import NotFoundError, Session
from determined.common.pages import pages


def workspace_by_name(session: Session, name: str) -> Dict[str, Any]:
    for raw in pages(session, "/workspaces", "workspaces", {"nameCaseSensitive": name}):
        if raw["name"] == name:
            return dict(raw)
    raise NotFoundError(404, f"workspace '{name}' not found")


def project_by_name(
    session: Session, workspace_id: int, workspace_name: str, name: str
) -> Dict[str, Any]:
    path = f"/workspaces/{workspace_id}/projects"
    for raw in pages(session, path, "projects", {"name": name}):
        if raw["name"] == name:
            return dict(raw)
    raise NotFoundError(404, f"workspace '{workspace_name}' has no project '{name}'")
