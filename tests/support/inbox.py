"""Webhooks for tests, and a courier that records messages."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.ports.courier import Unsent

from tests.support.api import Caller, config_of

W = "/api/v1/webhooks"
COMPLETED = {
    "triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE",
    "condition": {"state": "COMPLETED"},
}


@dataclass
class Post:
    url: str
    body: bytes
    headers: Mapping[str, str]

    @property
    def event(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document


@dataclass
class Inbox:
    """Implement `ports.courier.Courier`. Accept messages unless a test refuses them."""

    posts: list[Post] = field(default_factory=list)
    refusals: dict[str, Unsent] = field(default_factory=dict)  # by URL

    def check(self, url: str) -> None:
        if "private" in url:
            raise Unsent("that is an address of a private network", forever=True)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        if url in self.refusals:
            raise self.refusals[url]
        self.posts.append(Post(url, body, headers))

    @property
    def events(self) -> list[dict[str, Any]]:
        return [post.event for post in self.posts]


def make_webhook(caller: Caller, **more: Any) -> dict[str, Any]:
    new = {
        "name": "chat", "url": "https://example.com/hook", "webhookType": "WEBHOOK_TYPE_DEFAULT",
        "mode": "WEBHOOK_MODE_WORKSPACE", "workspaceId": 1, "triggers": [COMPLETED],
    }  # fmt: skip
    webhook: dict[str, Any] = caller.post(W, {**new, **more})["webhook"]
    return webhook


def end(caller: Caller, state: str = "STATE_COMPLETED", **config: Any) -> int:
    """Run an experiment elsewhere to its end."""
    body = {"config": config_of(**config), "unmanaged": True}
    experiment_id: int = caller.post("/api/v1/experiments", body)["experiment"]["id"]
    new = {"experimentId": experiment_id, "hparams": {}, "unmanaged": True}
    trial_id = caller.post("/api/v1/trials", new)["trial"]["id"]
    caller.post(f"/api/v1/trials/{trial_id}/start", {"trialId": trial_id, "resume": False})
    caller.done("PATCH", f"/api/v1/trials/{trial_id}", {"trialId": trial_id, "state": state})
    return experiment_id


def refused(caller: Caller, method: str, path: str, body: Any, status: int) -> str:
    response = caller.ask(method, path, body)
    assert response.status == status, response.body
    return response.error
