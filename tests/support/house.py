"""A cluster with two workspaces, and people who get roles in them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from det_controlplane.core.config.cluster import Authz
from det_controlplane.core.people.roles import ROLES
from det_controlplane.db.engine.database import Database

from tests.support.api import PASSWORD, Api, Caller, api_over, config_of
from tests.support.postgres import DatabaseServer

R = "/api/v1/roles"


class House:
    """Two workspaces with a project each, and people who get roles."""

    def __init__(self, api: Api, admin: Caller) -> None:
        self.api, self.admin = api, admin
        self.red, self.blue = (self.workspace(name) for name in ("red", "blue"))
        self.red_project, self.blue_project = (
            admin.post(f"/api/v1/workspaces/{id}/projects", {"name": "work"})["project"]["id"]
            for id in (self.red, self.blue)
        )

    def workspace(self, name: str) -> int:
        return int(self.admin.post("/api/v1/workspaces", {"name": name})["workspace"]["id"])

    def person(self, name: str, role: str = "", workspace: int | None = None) -> Caller:
        new = {"user": {"username": name, "active": True}, "password": PASSWORD}
        id = self.admin.post("/api/v1/users", new)["user"]["id"]
        if role:
            self.assign(role, workspace, user=id)
        return self.api.signed_in(name)

    def assign(self, role: str, workspace: int | None = None, **holder: int) -> None:
        self.admin.post(f"{R}/add-assignments", assignment(role, workspace, **holder))

    def experiment(self, caller: Caller, project: int) -> int:
        request = {"config": config_of(), "activate": False, "projectId": project}
        return int(caller.post("/api/v1/experiments", request)["experiment"]["id"])


@contextmanager
def house_over(server: DatabaseServer, folder: Path, authz: Authz = Authz.RBAC) -> Iterator[House]:
    """Make one with a database of its own."""
    with server.database() as url:
        database = Database(url)
        with api_over(database, folder) as api:
            api.ctx.config = replace(api.ctx.config, authz=authz)
            yield House(api, api.signed_in("admin"))
        database.dispose()


def assignment(role: str, workspace: int | None = None, **holder: int) -> dict[str, Any]:
    ((kind, id),) = holder.items()
    scope = {"scopeCluster": True} if workspace is None else {"scopeWorkspaceId": workspace}
    role_assignment = {
        f"{kind}Id": id,
        "roleAssignment": {"role": {"roleId": ROLES[role].id}, **scope},
    }
    return {f"{kind}RoleAssignments": [role_assignment]}


def id_of(caller: Caller) -> int:
    return int(caller.get("/api/v1/me")["user"]["id"])
