"""The gateway of an agent, and a container that calls it."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from det_agent.data_sets import NO_DATA_SETS, DataSets, NoDataSets
from det_agent.gateway import Gateway, GatewayDependencies
from det_agent.log_limits import LogLimits
from det_agent.report_delivery import ReportDelivery
from det_agent.runtime import ContainerKey, ContainerSessions
from det_agent.spool import Spool
from det_agent.trial_reports import TrialReports
from determined.common.connections import Connections

KEY = ContainerKey("c-1", 1, "alloc-1", "task-1", "secret-1")
OTHER = ContainerKey("c-2", 1, "alloc-2", "task-2", "secret-2")
TOKEN = {"Grpc-Metadata-x-allocation-token": "Bearer secret-1"}


@dataclass
class Caller:
    gateway: Gateway
    sessions: ContainerSessions
    spool: Spool

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | Iterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            raw = response.read()
            answer = json.loads(raw) if raw[:1] in (b"{", b"[") else raw
            return response.status, answer, {k.lower(): v for k, v in response.getheaders()}
        finally:
            connection.close()

    def spooled(self) -> list[dict[str, Any]]:
        batch = self.spool.next_batch()
        return [json.loads(line) for line in batch.lines] if batch else []


@contextmanager
def running_gateway(
    url: str,
    folder: Path,
    sessions: ContainerSessions,
    spool: Spool,
    data: DataSets | NoDataSets = NO_DATA_SETS,
) -> Iterator[Gateway]:
    upstream = Connections(url)
    reports = TrialReports(
        folder / "reports", ReportDelivery(upstream, lambda: ""), lambda key, text: None
    )
    logs = LogLimits(spool, "agent-1", lines_s=1, bytes_s=1 << 20)
    agent = GatewayDependencies("agent-1", sessions, logs, reports, upstream, data=data)
    gateway = Gateway(agent, "127.0.0.1", 0)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()
        # Undelivered reports would be retried during tests of other files.
        reports.stop()
