"""The samples of containers' resources: their length, their rates, and their delivery by polls."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from det_agent import resources
from det_agent.resources import FINE_FOR_S, FINE_S, MEASURE_S, STEADY_S, ResourceMeter
from det_agent.runtime import ContainerKey, Started, Usage
from det_controlplane.core.agent_protocol import PollRequest, ResourceSample, Slot

MIB = 1 << 20
SLOTS = (Slot(0, "cuda", "GPU-a", "A100"), Slot(1, "cuda", "GPU-b", "A100"))
IDLE = "GPU-a, 0, 10, 40960\nGPU-b, 0, 10, 40960\n"


@dataclass
class Machine:
    """A machine with containers, a clock, and a driver."""

    now: float = 1000.0
    usages: dict[str, Usage] = field(default_factory=dict)
    slot_ids: tuple[int, ...] = ()
    shows: str = IDLE
    queries: int = 0

    def __post_init__(self) -> None:
        runtime: Any = SimpleNamespace(usage=lambda started: self.usages.get(started.key.id))
        self.meter = ResourceMeter(
            runtime, self.running, SLOTS, self.query, lambda: 5000.0 + self.now, lambda: self.now
        )

    def running(self) -> list[Started]:
        return [
            Started(ContainerKey(id, 1, "a", "t"), "1", slot_ids=self.slot_ids)
            for id in self.usages
        ]

    def query(self, command: Sequence[str]) -> str:
        self.queries += 1
        return self.shows

    def measure(self, seconds: float = MEASURE_S) -> None:
        self.now += seconds
        self.meter.measure()

    @property
    def samples(self) -> tuple[ResourceSample, ...]:
        return self.meter.pending()


def busy(machine: Machine, seconds: float, cores: float = 0.5) -> None:
    """Let a container compute for a while, with measurements in the usual interval."""
    for _ in range(round(seconds / MEASURE_S)):
        before = machine.usages.get("c", Usage(0.0, memory=0.0))
        machine.usages["c"] = Usage((before.cpu_s or 0.0) + cores * MEASURE_S, memory=7.0)
        machine.measure()


def test_rates_are_differences_of_counters_over_the_time() -> None:
    machine = Machine()
    machine.usages["c"] = Usage(10.0, 8.0, 100.0, 900.0, 1000.0, 0.0, 50.0, 5.0)
    machine.measure()
    machine.usages["c"] = Usage(25.0, 8.0, 300.0, 900.0, 3000.0, 500.0, 150.0, 5.0)
    machine.measure(FINE_S)
    assert machine.samples == (
        ResourceSample("c", 6005.0, FINE_S, 1.5, 8.0, 300.0, 900.0, 200.0, 50.0, 10.0, 0.0),
    )


def test_samples_of_the_first_minutes_are_short() -> None:
    machine = Machine()
    busy(machine, 2 * FINE_FOR_S)
    lengths = [sample.seconds for sample in machine.samples]
    assert lengths[0] == FINE_S
    assert lengths[-1] == STEADY_S
    assert len(lengths) == pytest.approx(FINE_FOR_S / FINE_S + FINE_FOR_S / STEADY_S, abs=1)


def test_samples_cover_the_time_until_the_end_of_a_container() -> None:
    machine = Machine()
    busy(machine, FINE_FOR_S + 2 * STEADY_S + 3 * MEASURE_S)
    begin, end = 1000.0 + MEASURE_S, machine.now
    assert sum(sample.seconds for sample in machine.samples) < end - begin
    del machine.usages["c"]
    machine.measure()
    assert sum(sample.seconds for sample in machine.samples) == end - begin
    starts = [sample.start - 5000.0 for sample in machine.samples]
    ends = [sample.start - 5000.0 + sample.seconds for sample in machine.samples]
    assert starts == [begin, *ends[:-1]]


def test_container_that_was_measured_once_has_no_sample() -> None:
    machine = Machine(usages={"c": Usage(1.0)})
    machine.measure()
    machine.usages.clear()
    machine.measure()
    assert machine.samples == ()


def test_memory_is_the_largest_measurement_of_a_sample() -> None:
    machine = Machine()
    busy(machine, FINE_FOR_S + STEADY_S)
    machine.meter.delivered(machine.samples)
    for memory in (5.0, 90.0, *[6.0] * 30):
        machine.usages["c"] = Usage(0.0, memory=memory)
        machine.measure()
    memories = [sample.memory for sample in machine.samples]
    assert 90.0 in memories
    assert memories[-1] == 6.0


def test_restarted_counters_give_no_negative_rates() -> None:
    machine = Machine(usages={"c": Usage(100.0)})
    machine.measure()
    machine.usages["c"] = Usage(1.0)
    machine.measure(FINE_S)
    assert [sample.cpu for sample in machine.samples] == [0.0]


def test_values_that_the_runtime_lacks_stay_unknown() -> None:
    machine = Machine(usages={"c": Usage(1.0)})
    machine.measure()
    machine.measure(FINE_S)
    (sample,) = machine.samples
    assert (sample.cpu, sample.memory, sample.net_sent) == (0.0, None, None)


def test_container_that_cannot_be_measured_now_continues_later() -> None:
    machine = Machine(usages={"c": Usage(1.0)})
    machine.measure()
    runtime: Any = machine.meter._runtime
    usage, runtime.usage = runtime.usage, lambda started: None
    machine.measure()
    runtime.usage = usage
    machine.usages["c"] = Usage(2.0)
    machine.measure()
    assert [sample.cpu for sample in machine.samples] == [0.1]


def test_only_the_gpus_of_a_container_are_in_its_samples() -> None:
    machine = Machine(usages={"c": Usage(0.0)}, slot_ids=(1,))
    machine.measure()
    for util, memory in ((40, 100), (90, 50)):
        machine.shows = f"GPU-a, 99, 99, 40960\nGPU-b, {util}, {memory}, 40960\n"
        machine.measure()
    ((gpu,),) = [sample.gpus for sample in machine.samples]
    assert (gpu.slot, gpu.util, gpu.memory, gpu.memory_limit) == (1, 65.0, 100 * MIB, 40960 * MIB)


def test_driver_is_not_asked_while_no_container_has_a_gpu() -> None:
    machine = Machine(usages={"c": Usage(0.0)})
    machine.measure()
    assert machine.queries == 0


@pytest.mark.parametrize("shows", ["", "No devices were found\n", "GPU-b, [N/A], [N/A], [N/A]\n"])
def test_broken_driver_leaves_out_the_gpus(shows: str) -> None:
    machine = Machine(usages={"c": Usage(0.0)}, slot_ids=(0, 1), shows=shows)
    machine.measure()
    machine.measure(FINE_S)
    assert [sample.gpus for sample in machine.samples] == [()]


def test_part_of_a_gpu_has_memory_without_utilization() -> None:
    """The driver reports no utilization for a MIG device."""
    machine = Machine(usages={"c": Usage(0.0)}, slot_ids=(0,), shows="GPU-a, [N/A], 5, 9856\n")
    machine.measure()
    machine.measure(FINE_S)
    ((gpu,),) = [sample.gpus for sample in machine.samples]
    assert (gpu.util, gpu.memory) == (None, 5 * MIB)


def test_samples_are_pending_until_a_poll_delivered_them() -> None:
    machine = Machine()
    busy(machine, 4 * FINE_S)
    sent = machine.samples
    busy(machine, FINE_S)
    machine.meter.delivered(sent)
    assert len(machine.samples) == 1
    assert not set(machine.samples) & set(sent)


def test_long_outage_loses_the_oldest_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "MOST_KEPT", 3)
    machine = Machine()
    busy(machine, 8 * FINE_S + MEASURE_S)
    starts = [sample.start for sample in machine.samples]
    newest = 5000.0 + machine.now - FINE_S
    assert starts == [newest - 2 * FINE_S, newest - FINE_S, newest]


def test_poll_carries_a_bounded_number_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "MOST_AT_ONCE", 2)
    machine = Machine()
    busy(machine, 8 * FINE_S)
    assert len(machine.samples) == 2


def test_samples_survive_the_journey() -> None:
    machine = Machine(usages={"c": Usage(0.0, 2.0)}, slot_ids=(0,))
    machine.measure()
    machine.measure(FINE_S)
    request = PollRequest("i", 1, resources=machine.samples)
    assert PollRequest.from_json(request.as_json()) == request
