"""Accounts: list, show, create, edit; and the web settings of a user."""

from dataclasses import dataclass, field, replace
from typing import Any

from det_controlplane.api.agent_users import AgentUserGroup
from det_controlplane.api.answers import OneUser, Users
from det_controlplane.api.auth import user_of
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import (
    EMPTY,
    Answer,
    Request,
    is_signed_in_by_cookie,
    json_parts,
    json_response,
)
from det_controlplane.api.listing import ListQuery, filters_of
from det_controlplane.api.router import Unaudited, delete, get, patch, post
from det_controlplane.core.people.permissions import TaskRule, by_service, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import actions
from det_controlplane.services.identity import sign_in
from det_controlplane.services.interactive import user_work as user_tasks
from det_controlplane.services.organization import preferences, users
from det_controlplane.services.organization.preferences import Setting
from det_controlplane.services.organization.users import Password, UserChanges


@dataclass(frozen=True)
class UserQuery(ListQuery):
    active: bool | None = None
    admin: bool | None = None
    name: str = ""


@dataclass(frozen=True)
class AccountBody:
    username: str | None = None
    display_name: str | None = None
    admin: bool | None = None
    active: bool | None = None
    remote: bool | None = None
    agent_user_group: AgentUserGroup | None = None


@dataclass(frozen=True)
class NewUser:
    user: AccountBody = AccountBody()
    password: str | None = None
    is_hashed: bool = False


@dataclass(frozen=True)
class UserBody(AccountBody):
    password: str | None = None
    current_password: str | None = None
    is_hashed: bool = False
    end_tokens: bool = False
    pause_work: bool = False


@dataclass(frozen=True)
class ActiveUsers:
    user_ids: list[Any] = field(default_factory=list)  # other values than numbers are ignored
    activate: bool = False


@dataclass(frozen=True)
class WebSetting:
    key: str
    storage_path: str = ""
    value: str = ""


@dataclass(frozen=True)
class WebSettings:
    settings: list[WebSetting] = field(default_factory=list)
    setting: WebSetting | None = None


@dataclass(frozen=True)
class Activity:
    entity_id: int = 0


@dataclass(frozen=True)
class RecentQuery:
    limit: int = 5


def list_users(ctx: Context, request: Request, query: UserQuery) -> Answer:
    filters = filters_of(active=query.active, admin=query.admin, name=query.name)
    return json_parts(users.listed(ctx, query.page(), query.sort(), filters))


def get_user(ctx: Context, request: Request) -> Answer:
    return json_response({"user": users.get(ctx, request.id("userId"))})


def by_name(ctx: Context, request: Request) -> Answer:
    return json_response({"user": users.by_name(ctx, request.param("username"))})


def create(ctx: Context, request: Request, body: NewUser) -> Answer:
    changes = _changes(body.user, _password(body))
    return json_response({"user": users.create(ctx, user_of(request), changes)})


def edit(ctx: Context, request: Request, body: UserBody) -> Answer:
    caller, user_id = user_of(request), request.id("userId")
    changes = replace(
        _changes(body, _password(body)),
        end_tokens=body.end_tokens,
        current_password=_current_password(request, body),
    )
    answer: dict[str, Any] = {"user": users.edit(ctx, caller, user_id, changes)}
    if changes.active is False:
        stops = body.pause_work
        paused = actions.pause_all_of_user(ctx, caller, user_id) if stops else []
        paused_tasks, ended_tasks = user_tasks.stop(ctx, caller, user_id) if stops else ([], [])
        answer |= {
            "pausedExperiments": paused,
            "runningExperiments": actions.running_of_user(ctx, user_id),
            "pausedTasks": paused_tasks,
            "endedTasks": ended_tasks,
            "runningTasks": [] if stops else user_tasks.running(ctx, user_id),
        }
    return json_response(answer)


def edit_many(ctx: Context, request: Request, body: ActiveUsers) -> Answer:
    ids = [int(id) for id in body.user_ids if isinstance(id, int)]
    results = users.set_active(ctx, user_of(request), ids, body.activate)
    return json_response({"results": results})


def set_password(ctx: Context, request: Request) -> Answer:
    """Set a password: the body is its text as JSON, already hashed by the client."""
    password = request.json_value() if request.body else ""
    if not isinstance(password, str):
        raise BadRequest("the body must be the password as JSON text")
    current = _current_password(request, UserBody())
    changes = UserChanges(password=Password(password, is_hashed=True), current_password=current)
    return json_response({"user": users.edit(ctx, user_of(request), request.id("userId"), changes)})


def _current_password(request: Request, body: UserBody) -> Password | None:
    """Return the current password, '' if a browser did not send it.

    None is for programs: clients of 0.38.1 sign in by a header and do not send the current password.
    """
    current = body.current_password
    if current is None and is_signed_in_by_cookie(request):
        current = ""
    return None if current is None else Password(current, body.is_hashed)


def _password(body: NewUser | UserBody) -> Password | None:
    return None if body.password is None else Password(body.password, body.is_hashed)


def _changes(account: AccountBody, password: Password | None) -> UserChanges:
    group = account.agent_user_group
    return UserChanges(
        username=account.username,
        display_name=account.display_name,
        password=password,
        admin=account.admin,
        active=account.active,
        remote=account.remote,
        agent_user=None if group is None else group.values(),
    )


def list_sessions(ctx: Context, request: Request) -> Answer:
    rows = sign_in.list_sessions(ctx, user_of(request), request.id("userId"))
    return json_response({"sessions": rows})


def end_session(ctx: Context, request: Request) -> Answer:
    sign_in.end_session(ctx, user_of(request), request.id("userId"), request.id("sessionId"))
    return EMPTY


def end_other_sessions(ctx: Context, request: Request) -> Answer:
    ended = sign_in.end_other_sessions(ctx, user_of(request), request.id("userId"))
    return json_response({"ended": ended})


def settings(ctx: Context, request: Request) -> Answer:
    return json_response({"settings": preferences.settings(ctx, user_of(request).id)})


def keep_settings(ctx: Context, request: Request, body: WebSettings) -> Answer:
    settings = body.settings or ([] if body.setting is None else [body.setting])
    rows = [Setting(s.key, s.storage_path, s.value) for s in settings]
    preferences.keep(ctx, user_of(request).id, rows)
    return EMPTY


def reset_settings(ctx: Context, request: Request) -> Answer:
    preferences.reset(ctx, user_of(request).id)
    return EMPTY


def report_activity(ctx: Context, request: Request, body: Activity) -> Answer:
    preferences.saw_project(ctx, user_of(request).id, body.entity_id)
    return EMPTY


def recent_projects(ctx: Context, request: Request, query: RecentQuery) -> Answer:
    limit = min(max(query.limit, 0), 100)
    projects = preferences.recent_projects(ctx, user_of(request).id, limit)
    return json_response({"projects": projects})


_U = "/api/v1/users"
_SESSIONS = require(by_service(Right.ADMINISTRATE_USER), task=TaskRule.NEVER)
ROUTES = (
    get(
        _U,
        list_users,
        response=Users,
        summary="List users",
        from_replica=True,
        rule=require(task=TaskRule.READ),
    ),
    post(
        _U,
        create,
        response=OneUser,
        summary="Create a user (administrators)",
        rule=require(task=TaskRule.NEVER, session=True),
        audit="user.create",
    ),
    patch(
        _U,
        edit_many,
        summary="Activate or deactivate users",
        rule=require(task=TaskRule.NEVER, session=True),
        audit="user.edit",
    ),
    get(
        f"{_U}/setting",
        settings,
        summary="Web settings of the caller",
        rule=require(task=TaskRule.READ),
    ),
    post(
        f"{_U}/setting",
        keep_settings,
        summary="Keep web settings",
        rule=require(task=TaskRule.NEVER),
        audit=Unaudited.NO_CHANGE,
    ),
    post(
        f"{_U}/setting/reset",
        reset_settings,
        summary="Forget web settings",
        rule=require(task=TaskRule.NEVER),
        audit=Unaudited.NO_CHANGE,
    ),
    post(
        f"{_U}/activity",
        report_activity,
        summary="The caller looked at a project",
        rule=require(task=TaskRule.NEVER),
        audit=Unaudited.NO_CHANGE,
    ),
    get(
        "/api/v1/user/projects/activity",
        recent_projects,
        summary="Projects looked at last",
        rule=require(task=TaskRule.READ),
    ),
    get(
        f"{_U}/{{userId}}",
        get_user,
        response=OneUser,
        summary="One user",
        rule=require(task=TaskRule.READ),
    ),
    patch(
        f"{_U}/{{userId}}",
        edit,
        response=OneUser,
        summary="Edit a user",
        rule=require(task=TaskRule.NEVER),
        audit="user.edit",
    ),
    get(
        f"{_U}/{{username}}/by-username",
        by_name,
        response=OneUser,
        summary="One user by name",
        rule=require(task=TaskRule.READ),
    ),
    get(
        f"{_U}/{{userId}}/sessions",
        list_sessions,
        summary="Where a user is signed in",
        rule=_SESSIONS,
    ),
    delete(
        f"{_U}/{{userId}}/sessions",
        end_other_sessions,
        summary="End all sessions but the caller's",
        rule=_SESSIONS,
        audit="user.sessions.delete",
    ),
    delete(
        f"{_U}/{{userId}}/sessions/{{sessionId}}",
        end_session,
        summary="End a session",
        rule=_SESSIONS,
        audit="user.sessions.delete",
    ),
    post(
        f"{_U}/{{userId}}/password",
        set_password,
        summary="Set a password",
        rule=require(task=TaskRule.NEVER),
        audit="user.password",
    ),
)
