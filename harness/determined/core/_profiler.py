"""System metrics of this machine, reported with the training metrics."""

import logging
import threading
from typing import Any, Dict, List, Optional

from determined.core._distributed import DistributedContext
from determined.core._train import TrainContext
from determined.profiler import Sampler

logger = logging.getLogger("determined.core")


class ProfilerContext:
    """Samples CPU, memory, disk, network and GPUs while it is on. One worker of each container samples."""

    def __init__(self, agent_id: str, train: TrainContext, distributed: DistributedContext) -> None:
        self._agent_id = agent_id
        self._train = train
        self._distributed = distributed
        self._thread: Optional[threading.Thread] = None
        self._stop = threading.Event()

    def on(self, sampling_interval: float = 1, samples_per_report: int = 10) -> None:
        """Sample every `sampling_interval` seconds. Report the mean of each `samples_per_report` samples."""
        if sampling_interval < 0.1:
            raise ValueError(f"sampling_interval must be at least 0.1 s, got {sampling_interval}")
        if samples_per_report < 1:
            raise ValueError(f"samples_per_report must be at least 1, got {samples_per_report}")
        if self._thread is not None:
            logger.warning("the profiler is already on")
            return
        if self._distributed.local_rank != 0:
            return
        self._stop.clear()
        self._thread = threading.Thread(
            target=self._run,
            args=(float(sampling_interval), samples_per_report),
            name="determined-profiler",
            daemon=True,
        )
        self._thread.start()

    def off(self) -> None:
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def _run(self, interval_s: float, samples_per_report: int) -> None:
        sampler = Sampler()
        samples: Dict[str, List[Dict[str, Any]]] = {}
        count = 0
        while not self._stop.wait(interval_s):
            for group, sample in sampler.sample().items():
                samples.setdefault(group, []).append(sample)
            count += 1
            if count == samples_per_report:
                self._report(samples)
                samples, count = {}, 0
        if samples:
            self._report(samples)

    def _report(self, samples: Dict[str, List[Dict[str, Any]]]) -> None:
        for group, values in samples.items():
            self._train._send(group, None, {self._agent_id: _mean(values)})


class DummyProfilerContext(ProfilerContext):
    """A profiler outside of a cluster, which does not sample."""

    def __init__(self) -> None:
        pass

    def on(self, sampling_interval: float = 1, samples_per_report: int = 10) -> None:
        logger.info("the profiler reports on a cluster only")

    def off(self) -> None:
        pass


def _mean(samples: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Average samples by key. Nested dictionaries, such as one for each GPU, are averaged recursively."""
    keys = dict.fromkeys(key for sample in samples for key in sample)
    out: Dict[str, Any] = {}
    for key in keys:
        values = [sample[key] for sample in samples if key in sample]
        out[key] = _mean(values) if isinstance(values[0], dict) else sum(values) / len(values)
    return out
