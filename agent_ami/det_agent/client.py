"""The agent's client for the control plane."""

import gzip
import json
from collections.abc import Sequence
from typing import Any, TypeVar

from det_controlplane.core.agent_protocol import (
    JoinAnswer,
    JoinRequest,
    Message,
    PollAnswer,
    PollRequest,
)
from determined.common.http import APIError, Session

Answer = TypeVar("Answer", bound=Message)
READ_MARGIN_S = 15.0


class ControlPlane:
    """The routes for agents. Each call sends one request, and the caller decides about retries."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._token = ""

    def join(self, request: JoinRequest) -> JoinAnswer:
        answer = _read(JoinAnswer, self._session.post("/agents/v1/join", request.as_json()))
        self._token = answer.agent_token
        return answer

    def poll(self, request: PollRequest) -> PollAnswer:
        answer = self._session.post(
            "/agents/v1/poll",
            request.as_json(),
            headers=self._auth(),
            timeout_s=request.wait_s + READ_MARGIN_S,
        )
        return _read(PollAnswer, answer)

    def ship_logs(self, batch_id: str, lines: Sequence[bytes]) -> None:
        """Send JSON-encoded task logs as one batch."""
        body = b'{"batch_id":%s,"matched":true,"logs":[%s]}' % (
            json.dumps(batch_id).encode(),
            b",".join(lines),
        )
        headers = {
            **self._auth(),
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        }
        packed = gzip.compress(body, compresslevel=5, mtime=0)
        self._session.post("/agents/v1/logs", packed, headers=headers)

    @property
    def token(self) -> str:
        """Return the token that the agent received when it joined."""
        return self._token

    def _auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}


def _read(kind: type[Answer], body: Any) -> Answer:
    try:
        return kind.from_json(body)
    except (TypeError, AttributeError) as e:
        raise APIError(502, f"an answer this agent does not understand: {e!r}") from e
