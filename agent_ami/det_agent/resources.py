"""Measure the resources of running containers, and keep the samples until a poll has delivered them.

A sample covers 10 seconds in a container's first five minutes, and a minute later. Samples wait in memory: during
an outage for some hours, and not for the next agent process.
"""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from det_controlplane.core.agent_protocol import GpuSample, ResourceSample, Slot

from det_agent.runtime import Runtime, Started, Usage
from det_agent.slots import QueryTool, run_tool

MEASURE_S = 5.0
FINE_S, FINE_FOR_S, STEADY_S = 10.0, 300.0, 60.0
SHORTEST_S = 1.0  # rates over less time are noise
MOST_KEPT, MOST_AT_ONCE = 20_000, 500
MIB = 1 << 20
_QUERY = (
    "nvidia-smi",
    "--query-gpu=uuid,utilization.gpu,memory.used,memory.total",
    "--format=csv,noheader,nounits",
)

_log = logging.getLogger(__name__)
Key = tuple[str, float]


@dataclass
class _Window:
    """The measurements of a container since the start of a sample."""

    start: float
    opened_at: float  # on the monotonic clock, as the next
    latest_at: float
    first: Usage
    latest: Usage
    memory: float | None
    gpus: dict[int, list[GpuSample]] = field(default_factory=dict)

    def add(self, usage: Usage, gpus: Sequence[GpuSample], now: float) -> None:
        self.latest, self.latest_at = usage, now
        self.memory = max((m for m in (self.memory, usage.memory) if m is not None), default=None)
        for gpu in gpus:
            self.gpus.setdefault(gpu.slot, []).append(gpu)

    @property
    def seconds(self) -> float:
        return self.latest_at - self.opened_at

    def sample(self, container_id: str) -> ResourceSample:
        def rate(name: str) -> float | None:
            before, after = getattr(self.first, name), getattr(self.latest, name)
            if before is None or after is None:
                return None
            return max(0.0, round(float(after - before) / self.seconds, 3))

        return ResourceSample(
            container_id=container_id,
            start=round(self.start, 3),
            seconds=round(self.seconds, 3),
            cpu=rate("cpu_s"),
            cpu_limit=self.latest.cpu_limit,
            memory=self.memory,
            memory_limit=self.latest.memory_limit,
            disk_read=rate("disk_read"),
            disk_write=rate("disk_write"),
            net_received=rate("net_received"),
            net_sent=rate("net_sent"),
            gpus=tuple(_mean(samples) for _, samples in sorted(self.gpus.items())),
        )


class ResourceMeter:
    """Measure the containers of an agent in a thread of its own."""

    def __init__(
        self,
        runtime: Runtime,
        running: Callable[[], Sequence[Started]],
        slots: Sequence[Slot],
        query: QueryTool = run_tool,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime, self._running = runtime, running
        self._gpus = {slot.uuid: slot.id for slot in slots if slot.type == "cuda"}
        self._query, self._clock, self._monotonic = query, clock, monotonic
        self._windows: dict[str, _Window] = {}
        self._seen_at: dict[str, float] = {}
        self._lock = threading.Lock()
        self._waiting: dict[Key, ResourceSample] = {}
        self._stop = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="resources", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def pending(self) -> tuple[ResourceSample, ...]:
        with self._lock:
            return tuple(itertools.islice(self._waiting.values(), MOST_AT_ONCE))

    def delivered(self, samples: tuple[ResourceSample, ...]) -> None:
        with self._lock:
            for sample in samples:
                self._waiting.pop(_key(sample), None)

    def _run(self) -> None:
        while not self._stop.wait(MEASURE_S):
            try:
                self.measure()
            except Exception:  # a measurement must not end the thread
                _log.exception("the resources of containers could not be measured")

    def measure(self) -> None:
        """Measure all running containers. End the samples that are long enough, and those of ended containers."""
        running = {started.key.id: started for started in self._running()}
        gpus = self._measure_gpus(running.values())
        for id, started in running.items():
            usage = self._runtime.usage(started)
            if usage is not None:
                own = [gpus[slot] for slot in started.slot_ids if slot in gpus]
                self._add(id, usage, own)
        for id in self._windows.keys() - running.keys():
            window = self._windows.pop(id)
            self._seen_at.pop(id)
            if window.seconds >= SHORTEST_S:
                self._keep(window.sample(id))

    def _add(self, id: str, usage: Usage, gpus: Sequence[GpuSample]) -> None:
        now = self._monotonic()
        window = self._windows.get(id)
        if window is None:
            self._seen_at[id] = now
        else:
            window.add(usage, gpus, now)
            fine = window.opened_at - self._seen_at[id] < FINE_FOR_S
            # Half an interval less, because intervals are not exact.
            if window.seconds < (FINE_S if fine else STEADY_S) - MEASURE_S / 2:
                return
            self._keep(window.sample(id))
        self._windows[id] = _Window(self._clock(), now, now, usage, usage, usage.memory)

    def _keep(self, sample: ResourceSample) -> None:
        with self._lock:
            self._waiting[_key(sample)] = sample
            if len(self._waiting) > MOST_KEPT:
                self._waiting.pop(next(iter(self._waiting)))

    def _measure_gpus(self, running: Iterable[Started]) -> Mapping[int, GpuSample]:
        """Return the use of each GPU by its slot, if a container has one."""
        used = {slot for started in running for slot in started.slot_ids}
        if not used.intersection(self._gpus.values()):
            return {}
        samples = (self._gpu_sample(line) for line in self._query(_QUERY).splitlines())
        return {sample.slot: sample for sample in samples if sample is not None}

    def _gpu_sample(self, line: str) -> GpuSample | None:
        cells = [cell.strip() for cell in line.split(",")]
        slot = self._gpus.get(cells[0])
        if slot is None or len(cells) != 4:
            return None
        util, used, total = (_number(cell) for cell in cells[1:])
        if used is None or total is None:
            return None
        return GpuSample(slot, used * MIB, total * MIB, util)


def _mean(samples: Sequence[GpuSample]) -> GpuSample:
    utils = [sample.util for sample in samples if sample.util is not None]
    return GpuSample(
        samples[-1].slot,
        max(sample.memory for sample in samples),
        samples[-1].memory_limit,
        round(sum(utils) / len(utils), 1) if utils else None,
    )


def _number(text: str) -> float | None:
    """Return a number of the driver's tool. It writes [N/A] for values that a GPU does not have."""
    try:
        return float(text)
    except ValueError:
        return None


def _key(sample: ResourceSample) -> Key:
    return sample.container_id, sample.start
