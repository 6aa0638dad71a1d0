"""Small apps for the tests of hosts: the handlers are the test's, routing and errors are real."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import cast

from det_controlplane.api.app import App
from det_controlplane.api.http import Answer, Request
from det_controlplane.api.router import Access, Route, Router
from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.ports.spans import Spans
from det_controlplane.services.context import Context, Host, RandomValues
from det_controlplane.services.memory import ProcessMemory

Handler = Callable[[Context, Request], Answer]


@dataclass
class HostContext:
    """The parts of the context that a host looks at."""

    host: Host
    config: ClusterConfig = field(default_factory=ClusterConfig)
    random: RandomValues = field(
        default_factory=lambda: RandomValues(uuid=lambda: uuid.UUID(int=7))
    )

    spans: Spans | None = None
    memory: ProcessMemory = field(default_factory=ProcessMemory)
    file_config: ClusterConfig | None = None

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=timezone.utc)


def small_app(*handlers: tuple[str, Handler], method: str = "GET", may_wait_s: float = 30) -> App:
    routes = [Route(method, path, handler, Access.PUBLIC) for path, handler in handlers]
    return App(cast(Context, HostContext(Host(may_wait_s=may_wait_s))), Router(routes))
