"""Webhooks."""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from det_controlplane.api.auth import user_of
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


@dataclass(frozen=True)
class ConditionBody:
    state: str = ""
    regex: str = ""
    subject: str = ""


@dataclass(frozen=True)
class TriggerBody:
    trigger_type: str = ""
    condition: ConditionBody = ConditionBody()


@dataclass(frozen=True)
class WebhookBody:
    name: str = ""
    url: str = ""
    webhook_type: str = ""
    mode: str = ""
    workspace_id: int = 0
    triggers: list[TriggerBody] = field(default_factory=list)


@dataclass(frozen=True)
class WebhookChanges:
    name: str | None = None
    url: str | None = None
    triggers: list[TriggerBody] | None = None
    enabled: bool | None = None


@dataclass(frozen=True)
class AlertData:
    title: str = ""
    description: str = ""
    level: str = ""


@dataclass(frozen=True)
class AlertBody:
    experiment_id: int = 0
    trial_id: int = 0
    data: AlertData = AlertData()


def create(ctx: Context, request: Request, body: WebhookBody) -> Answer:
    new = NewWebhook(
        body.name,
        body.url,
        _choice(WebhookType, "webhookType", "WEBHOOK_TYPE_", body.webhook_type),
        _choice(WebhookMode, "mode", "WEBHOOK_MODE_", body.mode),
        body.workspace_id or None,
        [_trigger(item) for item in body.triggers],
    )
    return json_response({"webhook": administration.create(ctx, user_of(request), new)})


def edit(ctx: Context, request: Request, body: WebhookChanges) -> Answer:
    triggers = None if body.triggers is None else [_trigger(item) for item in body.triggers]
    edited = administration.edit(
        ctx, user_of(request), request.id("id"), url=body.url, name=body.name, triggers=triggers, enabled=body.enabled,
    )  # fmt: skip
    return json_response({"webhook": edited})


def remove(ctx: Context, request: Request) -> Answer:
    administration.delete(ctx, user_of(request), request.id("id"))
    return EMPTY


def test(ctx: Context, request: Request) -> Answer:
    administration.test(ctx, user_of(request), request.id("id"))
    return json_response({"completed": True})


def alert(ctx: Context, request: Request, body: AlertBody) -> Answer:
    data = body.data
    level = data.level.removeprefix("LOG_LEVEL_").upper() or "INFO"
    if level not in _LEVELS:
        raise BadRequest(f"data.level must be one of {', '.join(_LEVELS)}, not {level!r}")
    custom = {"title": data.title, "description": data.description, "level": level}
    trial_id = body.trial_id or None
    events.alert(ctx, user_of(request), body.experiment_id, trial_id, custom)
    return EMPTY


def _trigger(body: TriggerBody) -> Trigger:
    kind = _choice(TriggerType, "triggerType", "TRIGGER_TYPE_", body.trigger_type)
    condition = body.condition
    if kind is TriggerType.CUSTOM:
        return Trigger(kind, {"subject": condition.subject} if condition.subject else {})
    if kind is TriggerType.EXPERIMENT_STATE_CHANGE:
        return Trigger(kind, {"state": condition.state})
    return Trigger(kind, {"regex": condition.regex})


def _choice(kind: type[E], name: str, prefix: str, text: str) -> E:
    try:
        return kind(text.removeprefix(prefix))
    except ValueError as e:
        names = ", ".join(f"{prefix}{member.value}" for member in kind)
        raise BadRequest(f"{name} must be one of {names}, not {text!r}") from e


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
