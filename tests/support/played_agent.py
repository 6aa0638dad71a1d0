"""An agent that joins, polls and reports on request of a test."""

import uuid
from typing import Any

from tests.support.api import BOOTSTRAP, Api, Caller, create


class PlayedAgent:
    """Join, accept the ordered containers, and report them on request."""

    def __init__(self, api: Api, name: str) -> None:
        self._api, self._name, self._incarnation, self._seq = api, name, str(uuid.uuid4()), 0
        self.containers: dict[str, dict[str, Any]] = {}

    def join(self, pool: str = "default") -> None:
        name = self._name
        slots = [{"id": i, "type": "cuda", "brand": "A100", "uuid": f"{name}-{i}"} for i in (0, 1)]
        body = {
            "agent_id": name, "agent_key": "key", "incarnation": self._incarnation, "pool": pool,
            "runtime": "process", "hostname": name, "addresses": ["127.0.0.1"], "slots": slots,
            "version": "0.38.1", "proof": {"kind": "bootstrap_token", "token": BOOTSTRAP},
        }  # fmt: skip
        answer = self._api.anonymous().post("/agents/v1/join", body)
        self._caller = self._api.with_token(answer["agent_token"])

    @property
    def caller(self) -> Caller:
        return self._caller

    def poll(
        self, state: str = "running", *, gone: bool = False, **more: Any
    ) -> list[dict[str, Any]]:
        """Report all containers in a state; return the directives that came back."""
        reports = [
            {"id": c["id"], "epoch": c["epoch"], "state": state, "address": "127.0.0.1", **more}
            for c in self.containers.values()
        ]
        self._seq += 1
        body = {"incarnation": self._incarnation, "seq": self._seq, "gone": gone}
        self.sent: dict[str, Any] = {**body, "containers": reports}
        self.told: dict[str, Any] = self._caller.post("/agents/v1/poll", self.sent)
        self.containers = {c["id"]: c for c in self.told["containers"]}
        return list(self.containers.values())


def task_of(api: Api, owner: Caller, **config: Any) -> tuple[Caller, int]:
    """Return the token of a running task, and the experiment it is of."""
    experiment = create(owner, activate=True, **config)
    agent = PlayedAgent(api, f"agent-{experiment}")
    agent.join()
    api.tick()
    (order,) = agent.poll()
    return api.with_token(order["spec"]["session_token"]), experiment
