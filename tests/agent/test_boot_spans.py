"""The boot of a machine in the trace of the start that rented it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from det_agent.boot_spans import BootSpans, read_steps
from det_controlplane.core.agent_protocol import ContainerSpec

from tests.support.agents import make_spec
from tests.support.otlp_receiver import Receiver, otlp_receiver

TRACE, RUN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
STEPS = "10.5 installing docker\nnoise\n20.25 installing the agent\n30 starting the agent\n31 done\n40 x\n"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with otlp_receiver() as receiver:
        yield receiver


def spec(receiver: Receiver, **trace: Any) -> ContainerSpec:
    target = {"traceparent": f"00-{TRACE}-{RUN}-01", "endpoint": receiver.url, **trace}
    return ContainerSpec.from_json(make_spec(["true"]) | {"trace": target})


def test_steps_of_the_boot_script_belong_to_the_start(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "steps").write_text(STEPS)
    boot = BootSpans("agent-1", tmp_path / "steps")
    boot.send(spec(receiver, is_rented=True))
    receiver.until("starting the agent")
    (script,) = receiver.named("boot script")
    assert (script.trace_id, script.parent_id, script.service) == (TRACE, RUN, "determined-machine")
    assert (script.begin_ns, script.end_ns) == (10_500_000_000, 31_000_000_000)
    (docker,) = receiver.named("installing docker")
    assert (docker.parent_id, docker.begin_ns) == (script.span_id, 10_500_000_000)
    assert docker.end_ns == 20_250_000_000
    assert docker.attributes["det.agent.id"] == "agent-1"
    count = len(receiver.spans)
    boot.send(spec(receiver, is_rented=True))
    assert len(receiver.spans) == count == 4


def test_machine_that_was_there_before_sends_no_boot(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "steps").write_text(STEPS)
    boot = BootSpans("agent-1", tmp_path / "steps")
    boot.send(spec(receiver))
    boot.send(ContainerSpec.from_json(make_spec(["true"])))
    assert not boot.is_sent


def test_machine_without_a_boot_script_starts_containers(
    receiver: Receiver, tmp_path: Path
) -> None:
    BootSpans("agent-1", tmp_path / "missing").send(spec(receiver, is_rented=True))
    assert receiver.spans == []


def test_steps_end_with_the_script(tmp_path: Path) -> None:
    (tmp_path / "steps").write_text(STEPS)
    assert [name for _, name in read_steps(tmp_path / "steps")] == [
        "installing docker",
        "installing the agent",
        "starting the agent",
        "done",
    ]
