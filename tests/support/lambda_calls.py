"""Requests to a control plane on Lambda, as its users and agents send them."""

import json
from typing import Any, Protocol

from tests.support.lambda_events import Http, answered, rest_event

CONFIG = """
name: on-lambda
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {batches: 1}}
max_restarts: 0
"""


class Invoked(Protocol):
    def invoke(self, event: Any, /) -> Any: ...


def call(
    api: Invoked, method: str, path: str, token: str = "", body: Any = None, once: str = ""
) -> Any:
    """Send a request that must succeed; `once` makes it one that may be repeated."""
    fields = {"Authorization": f"Bearer {token}" if token else "", "Idempotency-Key": once}
    headers = tuple((name, value) for name, value in fields.items() if value)
    content = b"" if body is None else json.dumps(body).encode()
    status, _, raw = answered(api.invoke(rest_event(Http(method, path, content, headers))))
    assert status == 200, raw
    return json.loads(raw)


def sign_in(api: Invoked) -> str:
    login = {"username": "determined", "password": "Password1"}
    return str(call(api, "POST", "/api/v1/auth/login", body=login)["token"])


def create_experiment(api: Invoked, token: str, once: str = "") -> int:
    file = {"path": "train.py", "type": 48, "content": "", "mode": 0o644}
    body = {"config": CONFIG, "modelDefinition": [file], "activate": True}
    return int(call(api, "POST", "/api/v1/experiments", token, body, once)["experiment"]["id"])


def join_agent(api: Invoked) -> str:
    joining = {
        "agent_id": "a1",
        "agent_key": "key",
        "incarnation": "00000000-0000-0000-0000-000000000001",
        "pool": "default",
        "version": "0.38.1",
        "hostname": "h",
        "addresses": ["10.0.0.1"],
        "runtime": "process",
        "slots": [{"id": 0, "type": "cpu", "uuid": "u", "brand": "Artificial"}],
        "proof": {"kind": "bootstrap_token", "token": "bootstrap"},
    }
    return str(call(api, "POST", "/agents/v1/join", body=joining)["agent_token"])


def poll(api: Invoked, token: str) -> Any:
    body = {"incarnation": "00000000-0000-0000-0000-000000000001", "containers": [], "wait_s": 20}
    return call(api, "POST", "/agents/v1/poll", token, body)
