"""The agent's side of the conversation with the control plane."""

import gzip
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from determined.common.http import APIError, Session

from det_agent.messages import (
    ContainerReport,
    JoinAnswer,
    PollAnswer,
    Signal,
    Slot,
    read_join_answer,
    read_poll_answer,
)

Answer = TypeVar("Answer")
READ_MARGIN_S = 15.0


@dataclass(frozen=True)
class Introduction:
    """Who this agent is, as it joins."""

    agent_id: str
    agent_key: str = field(repr=False)
    pool: str = "default"
    version: str = ""
    hostname: str = ""
    addresses: tuple[str, ...] = ()
    runtime: str = "process"
    slots: tuple[Slot, ...] = ()
    out_of_service: str = ""
    incarnation: str = field(default_factory=lambda: str(uuid.uuid4()))

    def as_json(self, proof: Mapping[str, str]) -> dict[str, Any]:
        return {
            "agent_id": self.agent_id,
            "agent_key": self.agent_key,
            "incarnation": self.incarnation,
            "pool": self.pool,
            "version": self.version,
            "hostname": self.hostname,
            "addresses": list(self.addresses),
            "runtime": self.runtime,
            "slots": [slot.as_json() for slot in self.slots],
            "out_of_service": self.out_of_service,
            "proof": dict(proof),
        }


class ControlPlane:
    """Sends one request per call and never retries: the loop and the shipper know better when to try again."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._token = ""

    def join(self, who: Introduction, proof: Mapping[str, str]) -> JoinAnswer:
        body = self._session.post("/agents/v1/join", who.as_json(proof))
        answer = _understood(read_join_answer, body)
        self._token = answer.agent_token
        return answer

    def poll(
        self,
        incarnation: str,
        seq: int,
        containers: Iterable[ContainerReport],
        signals: Sequence[Signal],
        out_of_service: str,
        seen: str,
        wait_s: float,
    ) -> PollAnswer:
        body = {
            "incarnation": incarnation,
            "seq": seq,
            "wait_s": wait_s,
            "seen": seen,
            "containers": [report.as_json() for report in containers],
            "signals": [signal.as_json() for signal in signals],
            "out_of_service": out_of_service,
        }
        answer = self._session.post(
            "/agents/v1/poll", body, headers=self._auth(), timeout_s=wait_s + READ_MARGIN_S
        )
        return _understood(read_poll_answer, answer)

    def ship_logs(self, batch_id: str, lines: Sequence[bytes]) -> None:
        """`lines` are task logs, each already JSON."""
        body = b'{"batch_id":%s,"logs":[%s]}' % (json.dumps(batch_id).encode(), b",".join(lines))
        headers = {
            **self._auth(),
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        }
        packed = gzip.compress(body, compresslevel=5, mtime=0)
        self._session.post("/agents/v1/logs", packed, headers=headers)

    @property
    def joined(self) -> bool:
        return bool(self._token)

    def _auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}


def _understood(read: Callable[[Mapping[str, Any]], Answer], body: Any) -> Answer:
    try:
        return read(body)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise APIError(502, f"an answer this agent does not understand: {e!r}") from e
