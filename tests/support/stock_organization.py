"""People, workspaces, projects, pools and templates of the cluster that the stock client builds."""

from tests.support.api import PASSWORD
from tests.support.inbox import Inbox
from tests.support.stock_asker import World


def people(world: World) -> None:
    ask = world.ask
    ask("post_Login", {"username": "determined", "password": PASSWORD, "isHashed": False})
    ask("get_CurrentUser")
    ask("get_GetMe")
    about = {"username": "grace", "active": True, "admin": False, "displayName": "Grace H."}
    group = {"agentUid": 1, "agentUser": "grace", "agentGid": 2, "agentGroup": "navy"}
    user = {**about, "agentUserGroup": group}
    new = {"user": user, "password": "Strong1Password", "isHashed": False}
    grace = ask("post_PostUser", new)["user"]["id"]
    ask("patch_PatchUser", {"displayName": "Grace"}, userId=grace)
    ask("post_SetUserPassword", "0" * 128, userId=grace)
    ask("get_GetUser", userId=grace)
    ask("get_GetUserByUsername", username="grace")
    ask("get_GetUsers", query={"name": "gra"})
    ask("patch_PatchUsers", {"userIds": [grace], "activate": True})
    group_id = ask("post_CreateGroup", {"name": "navy", "addUsers": [grace]})["group"]["groupId"]
    ask("get_GetGroup", groupId=group_id)
    ask("post_GetGroups", {"limit": 10})
    ask("put_UpdateGroup", {"groupId": group_id, "name": "army"}, groupId=group_id)
    roles(world, grace, group_id)
    ask("delete_DeleteGroup", groupId=group_id)
    setting = {"key": "theme", "storagePath": "ui", "value": "dark"}
    ask("post_PostUserSetting", {"settings": [setting]})
    ask("get_GetUserSetting")
    ask("post_ResetUserSetting")
    ask("get_GetPermissionsSummary")


def roles(world: World, user_id: int, group_id: int) -> None:
    ask = world.ask
    every = ask("post_ListRoles", {"limit": 10})["roles"]
    viewer = next(role for role in every if role["name"] == "Viewer")
    ask("post_SearchRolesAssignableToScope", {"limit": 10, "workspaceId": 1})
    ask(
        "patch_AssignMultipleGroups",
        {"userIds": [user_id], "addGroups": [group_id], "removeGroups": []},
    )
    body = {"role": {"roleId": viewer["roleId"]}, "scopeWorkspaceId": 1, "scopeCluster": False}
    both = {
        "userRoleAssignments": [{"userId": user_id, "roleAssignment": body}],
        "groupRoleAssignments": [{"groupId": group_id, "roleAssignment": body}],
    }
    ask("post_AssignRoles", both)
    ask("get_GetRolesAssignedToUser", userId=user_id)
    ask("get_GetRolesAssignedToGroup", groupId=group_id)
    ask("post_GetRolesByID", {"roleIds": [viewer["roleId"]]})
    ask("get_GetGroupsAndUsersAssignedToWorkspace", workspaceId=1)
    ask("post_RemoveAssignments", both)


def tokens(world: World) -> None:
    ask = world.ask
    me = ask("get_GetMe")["user"]["id"]
    token = ask("post_PostAccessToken", {"userId": me, "lifespan": "24h", "description": "ci"})
    ask("get_GetAccessTokens")
    change = {"tokenId": token["tokenId"], "description": "nightly", "setRevoked": True}
    ask("patch_PatchAccessToken", change, tokenId=token["tokenId"])
    signed_in = world.api.signed_in("determined")
    before, world.caller = world.caller, signed_in
    ask("post_Logout")
    world.caller = before


def organization(world: World) -> None:
    ask = world.ask
    storage = {"type": "directory", "container_path": "/checkpoints"}
    group = {"agentUid": 1, "agentUser": "u", "agentGid": 2, "agentGroup": "g"}
    vision = ask(
        "post_PostWorkspace",
        {
            "name": "vision", "checkpointStorageConfig": storage, "agentUserGroup": group,
            "defaultComputePool": "default", "defaultAuxPool": "default",
        },
    )["workspace"]["id"]  # fmt: skip
    ask("patch_PatchWorkspace", {"name": "sight"}, id=vision)
    for call in ("ArchiveWorkspace", "UnarchiveWorkspace", "PinWorkspace"):
        ask(f"post_{call}", id=vision)
    ask("get_GetWorkspace", id=vision)
    ask("get_GetWorkspaces")
    ask("post_UnpinWorkspace", id=vision)
    ask("get_ListRPsBoundToWorkspace", workspaceId=vision)
    ask("get_ListWorkspaceNamespaceBindings", id=vision)
    ask("get_GetWorkspacesWithDefaultNamespaceBindings")
    ask("get_GetKubernetesResourceManagers")
    projects(world, vision)
    pools(world, vision)
    ask("delete_DeleteWorkspace", id=vision)


def projects(world: World, workspace_id: int) -> None:
    ask = world.ask
    new = {"name": "cats", "workspaceId": workspace_id, "description": "meow", "key": "CATS"}
    cats = ask("post_PostProject", new, workspaceId=workspace_id)["project"]["id"]
    note = {"name": "idea", "contents": "more cats"}
    ask("post_AddProjectNote", note, projectId=cats)
    ask("put_PutProjectNotes", {"projectId": cats, "notes": [note]}, projectId=cats)
    ask("patch_PatchProject", {"name": "dogs"}, id=cats)
    ask("post_ArchiveProject", id=cats)
    ask("get_GetWorkspaceProjects", id=workspace_id)
    ask("post_UnarchiveProject", id=cats)
    ask("get_GetProject", id=cats)
    ask("get_GetProjectByKey", key="CATS")
    activity = {"activityType": "ACTIVITY_TYPE_GET", "entityType": "ENTITY_TYPE_PROJECT"}
    ask("post_PostUserActivity", {**activity, "entityId": cats})
    ask("get_GetProjectsByUserActivity")
    other = ask("post_PostWorkspace", {"name": "other"})["workspace"]["id"]
    move = {"projectId": cats, "destinationWorkspaceId": other}
    ask("post_MoveProject", move, projectId=cats)
    ask("delete_DeleteProject", id=cats)


def pools(world: World, workspace_id: int) -> None:
    ask, pool = world.ask, {"resourcePoolName": "reserved"}
    ask("get_GetResourcePools")
    bound = {**pool, "workspaceIds": [workspace_id]}
    ask("post_BindRPToWorkspace", bound, **pool)
    ask("get_ListWorkspacesBoundToRP", **pool)
    ask("put_OverwriteRPWorkspaceBindings", bound, **pool)
    ask("get_ListRPsBoundToWorkspace", workspaceId=workspace_id)
    ask("delete_UnbindRPFromWorkspace", bound, **pool)


def templates(world: World) -> None:
    ask = world.ask
    new = {"name": "small", "config": {"max_restarts": 0}, "workspaceId": 1}
    ask("post_PostTemplate", new, template_name="small")
    ask("put_PutTemplate", new, template_name="small")
    ask("patch_PatchTemplateConfig", {"max_restarts": 1}, templateName="small")
    ask("patch_PatchTemplateName", {"oldName": "small", "newName": "tiny"})
    ask("get_GetTemplates")
    ask("get_GetTemplate", templateName="tiny")
    ask("delete_DeleteTemplate", templateName="tiny")
    policies = {"workloadType": "EXPERIMENT", "configPolicies": "constraints: {priority_limit: 1}"}
    everywhere = {"workloadType": "EXPERIMENT"}
    here = {**everywhere, "workspaceId": 1}
    ask("put_PutGlobalConfigPolicies", policies, **everywhere)
    ask("get_GetGlobalConfigPolicies", **everywhere)
    ask("delete_DeleteGlobalConfigPolicies", **everywhere)
    ask("put_PutWorkspaceConfigPolicies", {**policies, "workspaceId": 1}, **here)
    ask("get_GetWorkspaceConfigPolicies", **here)
    ask("delete_DeleteWorkspaceConfigPolicies", **here)


def webhooks(world: World) -> None:
    """Make two, try one, and change and delete one."""
    ask = world.ask
    world.api.ctx.courier = Inbox()
    trigger = {
        "triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE",
        "condition": {"state": "COMPLETED"},
    }
    new = {
        "name": "chat", "url": "https://example.com", "webhookType": "WEBHOOK_TYPE_DEFAULT",
        "mode": "WEBHOOK_MODE_WORKSPACE", "workspaceId": 1, "triggers": [trigger],
    }  # fmt: skip
    pager = {
        "name": "pager", "url": "https://example.org", "webhookType": "WEBHOOK_TYPE_SLACK",
        "mode": "WEBHOOK_MODE_SPECIFIC", "triggers": [{"triggerType": "TRIGGER_TYPE_CUSTOM"}],
    }  # fmt: skip
    ask("post_PostWebhook", pager)
    webhook_id = ask("post_PostWebhook", new)["webhook"]["id"]
    ask("get_GetWebhooks")
    ask("patch_PatchWebhook", {"url": "https://example.net"}, id=webhook_id)
    ask("post_TestWebhook", {}, id=webhook_id)
    ask("delete_DeleteWebhook", id=webhook_id)
