"""Read this machine's utilization from the kernel and, if there are GPUs, from their driver."""

import os
import subprocess
import time
from typing import Any, Dict, List, Optional, Tuple

_SECTOR_BYTES = 512
Sample = Dict[str, Dict[str, Any]]


class Sampler:
    """Samples system metrics. Each call of `sample` covers the time since the previous call."""

    def __init__(self) -> None:
        self._gpus = _find_gpus()
        self._time = time.monotonic()
        self._cpu = _cpu_times()
        self._disk = _disk_counters()
        self._network = _network_counters()

    def sample(self) -> Sample:
        """Return the groups `cpu`, `memory`, `disk`, `network` and `gpu`, without groups that the machine lacks."""
        now = time.monotonic()
        elapsed_s = max(now - self._time, 1e-3)
        self._time = now
        groups: Sample = {
            "cpu": self._cpu_sample(),
            "memory": {"memory_free": _free_memory_gib()},
            "disk": self._disk_sample(elapsed_s),
            "network": self._network_sample(elapsed_s),
            "gpu": self._gpus.sample() if self._gpus else {},
        }
        return {group: sample for group, sample in groups.items() if sample}

    def _cpu_sample(self) -> Dict[str, float]:
        before, self._cpu = self._cpu, _cpu_times()
        total = self._cpu[1] - before[1]
        if total <= 0:
            return {}
        return {"cpu_util_simple": 100.0 * (self._cpu[0] - before[0]) / total}

    def _disk_sample(self, elapsed_s: float) -> Dict[str, float]:
        before, self._disk = self._disk, _disk_counters()
        operations, read, written = (a - b for a, b in zip(self._disk, before))
        return {
            "disk_iops": operations / elapsed_s,
            "disk_throughput_read": read / elapsed_s,
            "disk_throughput_write": written / elapsed_s,
        }

    def _network_sample(self, elapsed_s: float) -> Dict[str, float]:
        before, self._network = self._network, _network_counters()
        received, sent = (a - b for a, b in zip(self._network, before))
        return {
            "net_throughput_recv": 8 * received / elapsed_s,
            "net_throughput_sent": 8 * sent / elapsed_s,
        }


class NvmlGpus:
    """Samples GPUs with pynvml, which needs no process for each sample."""

    def __init__(self) -> None:
        import pynvml

        self._nvml: Any = pynvml
        pynvml.nvmlInit()
        self._handles = [
            pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())
        ]

    def sample(self) -> Dict[str, Any]:
        samples = {}
        for handle in self._handles:
            uuid = self._nvml.nvmlDeviceGetUUID(handle)
            name = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
            samples[name] = {
                "gpu_util": float(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
                "gpu_free_memory": float(self._nvml.nvmlDeviceGetMemoryInfo(handle).free),
            }
        return samples


class SmiGpus:
    """Samples GPUs with nvidia-smi, for machines without pynvml."""

    _QUERY = (
        "nvidia-smi",
        "--query-gpu=uuid,utilization.gpu,memory.free",
        "--format=csv,noheader,nounits",
    )

    def sample(self) -> Dict[str, Any]:
        samples = {}
        for line in self._rows():
            uuid, util, free_mib = (part.strip() for part in line.split(","))
            samples[uuid] = {
                "gpu_util": float(util),
                "gpu_free_memory": float(free_mib) * 1024 * 1024,
            }
        return samples

    def _rows(self) -> List[str]:
        out = subprocess.run(self._QUERY, capture_output=True, text=True, timeout=10, check=True)
        return [line for line in out.stdout.splitlines() if line.count(",") == 2]


def gpu_uuids() -> List[str]:
    """Return the UUIDs of the GPUs that are visible to this process."""
    gpus = _find_gpus()
    return list(gpus.sample()) if gpus else []


def _find_gpus() -> Any:
    if not os.path.exists("/dev/nvidiactl"):
        return None
    try:
        return NvmlGpus()
    except Exception:  # pynvml is missing, or the driver does not respond
        pass
    try:
        gpus = SmiGpus()
        gpus.sample()
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return gpus


def _lines(path: str) -> List[str]:
    try:
        with open(path) as f:
            return f.readlines()
    except OSError:
        return []


def _cpu_times() -> Tuple[float, float]:
    """Return the busy and total time of all processors."""
    for line in _lines("/proc/stat")[:1]:
        values = [float(v) for v in line.split()[1:9]]
        idle = values[3] + values[4]
        return sum(values) - idle, sum(values)
    return 0.0, 0.0


def _free_memory_gib() -> Optional[float]:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) / 1024 / 1024
    return 0.0


def _disk_counters() -> Tuple[float, float, float]:
    """Return the operations, bytes read and bytes written of whole disks."""
    operations = read = written = 0.0
    for line in _lines("/proc/diskstats"):
        fields = line.split()
        if len(fields) < 10 or not os.path.exists(f"/sys/block/{fields[2]}"):
            continue
        if fields[2].startswith(("loop", "ram", "dm-")):
            continue
        operations += float(fields[3]) + float(fields[7])
        read += float(fields[5]) * _SECTOR_BYTES
        written += float(fields[9]) * _SECTOR_BYTES
    return operations, read, written


def _network_counters() -> Tuple[float, float]:
    received = sent = 0.0
    for line in _lines("/proc/net/dev"):
        name, _, rest = line.partition(":")
        fields = rest.split()
        if len(fields) >= 9 and name.strip() != "lo":
            received += float(fields[0])
            sent += float(fields[8])
    return received, sent
