"""Two polls that an agent may have under way at once."""

import threading
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import MagicMock

import pytest
from det_agent.loop import Loop, LoopDependencies
from det_controlplane.core.agent_protocol import (
    ContainerReport,
    ContainerSpec,
    Directive,
    PollAnswer,
    PollRequest,
)

NAMES = ("first", "second")


@dataclass
class Containers:
    """Containers of which the second begins only when it is let."""

    begun: threading.Event = field(default_factory=threading.Event)
    let: threading.Event = field(default_factory=threading.Event)
    known: dict[str, ContainerReport] = field(default_factory=dict)

    def reports(self) -> dict[str, ContainerReport]:
        return dict(self.known)

    def start(self, spec: ContainerSpec) -> None:
        if self.known:
            self.begun.set()
            assert self.let.wait(60)
        self.known[spec.container_id] = ContainerReport(spec.container_id, spec.epoch, "assigned")


@dataclass
class ControlPlane:
    """Orders two containers, as long as they are not reported."""

    sent: list[PollRequest] = field(default_factory=list)

    def poll(self, request: PollRequest) -> PollAnswer:
        self.sent.append(request)
        report_ids = {report.id for report in request.containers}
        return PollAnswer(
            containers=tuple(
                Directive(name, 1, "a", "running", spec=None if name in report_ids else spec(name))
                for name in NAMES
            ),
            next_poll_s=1.0,
        )


def spec(name: str) -> ContainerSpec:
    return ContainerSpec(
        container_id=name, allocation_id="a", task_id="t", epoch=1, command=("true",), session_token="s"
    )  # fmt: skip


def test_concurrent_poll_reports_all_started_containers() -> None:
    """Told of a part, the control plane would take the others for lost, or its answer would end them."""
    control_plane, containers = ControlPlane(), Containers()
    parts: Any = MagicMock(control_plane=control_plane, containers=containers)
    parts.health.out_of_service, parts.signals.current.return_value = "", ()
    loop = Loop(_dependencies(parts), threading.Event())
    polls = [threading.Thread(target=lambda: loop.last_report(gone=False)) for _ in range(2)]
    polls[0].start()
    assert containers.begun.wait(60)
    polls[1].start()
    polls[1].join(0.2)
    containers.let.set()
    for poll in polls:
        poll.join(60)
    assert {report.id for report in control_plane.sent[1].containers} == set(NAMES)


def _dependencies(parts: Any) -> LoopDependencies:
    return LoopDependencies(
        control_plane=parts.control_plane, containers=parts.containers, sessions=parts.sessions,
        signals=parts.signals, health=parts.health, join_request=parts.join_request, proof=dict,
        on_joined=parts.on_joined, pace_logs=parts.pace_logs, want_relay=parts.want_relay,
        has_unsent=parts.has_unsent, replicas=parts.replicas,
    )  # fmt: skip


@pytest.mark.parametrize("unsent", [True, False])
def test_poll_states_whether_log_lines_are_unsent(unsent: bool) -> None:
    control_plane, containers = ControlPlane(), Containers()
    containers.let.set()
    parts: Any = MagicMock(control_plane=control_plane, containers=containers)
    parts.health.out_of_service, parts.signals.current.return_value = "", ()
    parts.has_unsent.return_value = unsent
    Loop(_dependencies(parts), threading.Event()).last_report(gone=False)
    assert [poll.unsent for poll in control_plane.sent] == [unsent]
