"""Webhooks."""

from enum import Enum
from typing import TypeVar

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import EMPTY, Answer, Request, json_response
from det_controlplane.api.router import Unaudited, delete, get, patch, post
from det_controlplane.core.people.permissions import (
    TaskRule,
    by_service,
    in_body,
    in_listing,
    require,
)
from det_controlplane.core.people.roles import Right
from det_controlplane.core.webhooks import (
    NewWebhook,
    Trigger,
    TriggerType,
    WebhookMode,
    WebhookType,
)
from det_controlplane.services.context import Context
from det_controlplane.services.webhooks import administration, events

E = TypeVar("E", bound=Enum)
_LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def list_webhooks(ctx: Context, request: Request) -> Answer:
    return json_response({"webhooks": administration.listed(ctx, user_of(request), request.within)})


def get_webhook(ctx: Context, request: Request) -> Answer:
    return json_response({"webhook": administration.get(ctx, user_of(request), request.id("id"))})


def list_deliveries(ctx: Context, request: Request) -> Answer:
    tried = administration.deliveries(ctx, user_of(request), request.id("id"))
    return json_response({"deliveries": tried})


def create(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    new = NewWebhook(
        body.text("name"),
        body.text("url"),
        _choice(WebhookType, "webhookType", "WEBHOOK_TYPE_", body),
        _choice(WebhookMode, "mode", "WEBHOOK_MODE_", body),
        body.integer("workspaceId") or None,
        _triggers(body),
    )
    return json_response({"webhook": administration.create(ctx, user_of(request), new)})


def edit(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    url, name = body.optional_text("url"), body.optional_text("name")
    triggers = None if body.raw("triggers") is None else _triggers(body)
    edited = administration.edit(
        ctx, user_of(request), request.id("id"), url=url, name=name, triggers=triggers
    )
    return json_response({"webhook": edited})


def remove(ctx: Context, request: Request) -> Answer:
    administration.delete(ctx, user_of(request), request.id("id"))
    return EMPTY


def test(ctx: Context, request: Request) -> Answer:
    administration.test(ctx, user_of(request), request.id("id"))
    return json_response({"completed": True})


def alert(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    data = body.body("data")
    level = data.text("level").removeprefix("LOG_LEVEL_").upper() or "INFO"
    if level not in _LEVELS:
        raise BadRequest(f"data.level must be one of {', '.join(_LEVELS)}, not {level!r}")
    custom = {
        "title": data.text("title"),
        "description": data.text("description"),
        "level": level,
    }
    trial_id = body.integer("trialId") or None
    events.alert(ctx, user_of(request), body.integer("experimentId"), trial_id, custom)
    return EMPTY


def _triggers(body: Body) -> list[Trigger]:
    return [_trigger(item) for item in body.bodies("triggers")]


def _trigger(body: Body) -> Trigger:
    kind = _choice(TriggerType, "triggerType", "TRIGGER_TYPE_", body)
    given = body.body("condition")
    if kind is TriggerType.CUSTOM:
        subject = given.text("subject")
        return Trigger(kind, {"subject": subject} if subject else {})
    name = "state" if kind is TriggerType.EXPERIMENT_STATE_CHANGE else "regex"
    return Trigger(kind, {name: given.text(name)})


def _choice(kind: type[E], field: str, prefix: str, body: Body) -> E:
    given = body.text(field)
    try:
        return kind(given.removeprefix(prefix))
    except ValueError as e:
        known = ", ".join(f"{prefix}{member.value}" for member in kind)
        raise BadRequest(f"{field} must be one of {known}, not {given!r}") from e


_W = "/api/v1/webhooks"
_EDIT = require(by_service(Right.EDIT_WEBHOOKS), task=TaskRule.NEVER)
ROUTES = (
    get(
        _W,
        list_webhooks,
        summary="List webhooks",
        rule=require(in_listing(Right.EDIT_WEBHOOKS), task=TaskRule.READ),
    ),
    post(_W, create, summary="Create a webhook", rule=_EDIT, audit="webhook.create"),
    post(
        f"{_W}/custom",
        alert,
        summary="Send an alert to the webhooks of an experiment",
        rule=require(
            in_body(Right.UPDATE_EXPERIMENT, "experiment", "experimentId"),
            task=TaskRule.AS_OWNER,
            own=True,
        ),
        audit=Unaudited.REPORT,
    ),
    get(
        f"{_W}/{{id}}",
        get_webhook,
        summary="One webhook",
        rule=require(by_service(Right.EDIT_WEBHOOKS), task=TaskRule.READ),
    ),
    patch(
        f"{_W}/{{id}}",
        edit,
        summary="Change the address, the name or the triggers of a webhook",
        rule=_EDIT,
        audit="webhook.edit",
    ),
    delete(f"{_W}/{{id}}", remove, summary="Delete a webhook", rule=_EDIT, audit="webhook.delete"),
    get(
        f"{_W}/{{id}}/deliveries",
        list_deliveries,
        summary="The last tries to deliver messages of a webhook",
        rule=_EDIT,
    ),
    post(
        f"{_W}/{{id}}/test",
        test,
        summary="Send an example by a webhook, now",
        rule=_EDIT,
        audit=Unaudited.NO_CHANGE,
    ),
)
