"""Accounts: list, look at, create, edit; and what web pages remember of a person."""

from dataclasses import replace
from typing import Any

from det_controlplane.api.agent_users import agent_user_of
from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import (
    EMPTY,
    Answer,
    Request,
    is_signed_in_by_cookie,
    json_parts,
    json_response,
)
from det_controlplane.api.listing import filters_of, page_of, sort_of
from det_controlplane.api.router import Unaudited, delete, get, patch, post
from det_controlplane.core.people.permissions import TaskRule, by_service, require
from det_controlplane.core.people.roles import Right
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import user_work as user_experiments
from det_controlplane.services.identity import sessions
from det_controlplane.services.interactive import user_work as user_tasks
from det_controlplane.services.organization import preferences, users
from det_controlplane.services.organization.preferences import Setting
from det_controlplane.services.organization.users import Password, UserChanges


def list_users(ctx: Context, request: Request) -> Answer:
    active, admin = request.flag("active"), request.flag("admin")
    filters = filters_of(active=active, admin=admin, name=request.text("name"))
    return json_parts(users.listed(ctx, page_of(request), sort_of(request), filters))


def get_user(ctx: Context, request: Request) -> Answer:
    return json_response({"user": users.get(ctx, request.id("userId"))})


def by_name(ctx: Context, request: Request) -> Answer:
    return json_response({"user": users.by_name(ctx, request.param("username"))})


def create(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    changes = _changes(body.body("user"), _password(body))
    return json_response({"user": users.create(ctx, user_of(request), changes)})


def edit(ctx: Context, request: Request) -> Answer:
    body, caller, user_id = Body(request.json()), user_of(request), request.id("userId")
    current = _current_password(request, body)
    changes = replace(
        _changes(body, _password(body)),
        end_tokens=body.flag("endTokens"),
        current_password=current,
    )
    answer: dict[str, Any] = {"user": users.edit(ctx, caller, user_id, changes)}
    if changes.active is False:
        stops = body.flag("pauseWork")
        paused = user_experiments.pause(ctx, caller, user_id) if stops else []
        paused_tasks, ended_tasks = user_tasks.stop(ctx, caller, user_id) if stops else ([], [])
        answer |= {
            "pausedExperiments": paused,
            "runningExperiments": user_experiments.running(ctx, user_id),
            "pausedTasks": paused_tasks,
            "endedTasks": ended_tasks,
            "runningTasks": [] if stops else user_tasks.running(ctx, user_id),
        }
    return json_response(answer)


def edit_many(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    ids = [int(i) for i in body.items("userIds") if isinstance(i, int)]
    results = users.set_active(ctx, user_of(request), ids, body.flag("activate"))
    return json_response({"results": results})


def set_password(ctx: Context, request: Request) -> Answer:
    """Set a password: the body is its text as JSON, already hashed by the client."""
    password = request.json_value() if request.body else ""
    if not isinstance(password, str):
        raise BadRequest("the body must be the password as JSON text")
    current = _current_password(request, Body({}))
    changes = UserChanges(password=Password(password, is_hashed=True), current_password=current)
    return json_response({"user": users.edit(ctx, user_of(request), request.id("userId"), changes)})


def _current_password(request: Request, body: Body) -> Password | None:
    """Return the current password, '' if a browser did not send it.

    None is for programs: clients of 0.38.1 sign in by a header and do not send the current password.
    """
    current = body.optional_text("currentPassword")
    if current is None and is_signed_in_by_cookie(request):
        current = ""
    return None if current is None else Password(current, body.flag("isHashed"))


def _password(body: Body) -> Password | None:
    password = body.optional_text("password")
    return None if password is None else Password(password, body.flag("isHashed"))


def _changes(body: Body, password: Password | None) -> UserChanges:
    def flag(name: str) -> bool | None:
        return None if body.raw(name) is None else body.flag(name)

    return UserChanges(
        username=body.optional_text("username"),
        display_name=body.optional_text("displayName"),
        password=password,
        admin=flag("admin"),
        active=flag("active"),
        remote=flag("remote"),
        agent_user=agent_user_of(body),
    )


def list_sessions(ctx: Context, request: Request) -> Answer:
    found = sessions.listed(ctx, user_of(request), request.id("userId"))
    return json_response({"sessions": found})


def end_session(ctx: Context, request: Request) -> Answer:
    sessions.end(ctx, user_of(request), request.id("userId"), request.id("sessionId"))
    return EMPTY


def end_other_sessions(ctx: Context, request: Request) -> Answer:
    ended = sessions.end_others(ctx, user_of(request), request.id("userId"))
    return json_response({"ended": ended})


def settings(ctx: Context, request: Request) -> Answer:
    return json_response({"settings": preferences.settings(ctx, user_of(request).id)})


def keep_settings(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    given = body.bodies("settings") or ([body.body("setting")] if body.has("setting") else [])
    kept = [Setting(s.required_text("key"), s.text("storagePath"), s.text("value")) for s in given]
    preferences.keep(ctx, user_of(request).id, kept)
    return EMPTY


def reset_settings(ctx: Context, request: Request) -> Answer:
    preferences.reset(ctx, user_of(request).id)
    return EMPTY


def report_activity(ctx: Context, request: Request) -> Answer:
    preferences.saw_project(ctx, user_of(request).id, Body(request.json()).integer("entityId"))
    return EMPTY


def recent_projects(ctx: Context, request: Request) -> Answer:
    limit = request.integer("limit", default=5)
    found = preferences.recent_projects(ctx, user_of(request).id, min(max(limit, 0), 100))
    return json_response({"projects": found})


_U = "/api/v1/users"
_SESSIONS = require(by_service(Right.ADMINISTRATE_USER), task=TaskRule.NEVER)
ROUTES = (
    get(_U, list_users, summary="List users", from_replica=True, rule=require(task=TaskRule.READ)),
    post(
        _U,
        create,
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
    get(f"{_U}/{{userId}}", get_user, summary="One user", rule=require(task=TaskRule.READ)),
    patch(
        f"{_U}/{{userId}}",
        edit,
        summary="Edit a user",
        rule=require(task=TaskRule.NEVER),
        audit="user.edit",
    ),
    get(
        f"{_U}/{{username}}/by-username",
        by_name,
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
