"""The GPUs of this machine, under the names of Determined's package. NVIDIA's are read from `nvidia-smi`."""

import csv
import subprocess
from typing import List, NamedTuple, Sequence, Tuple

_TIMEOUT_S = 30.0


class GPU(NamedTuple):
    """A GPU; `load` and `memoryUtil` are fractions from 0 to 1."""

    id: int
    uuid: str
    load: float
    memoryUtil: float


class GPUProcess(NamedTuple):
    """A process that uses memory of a GPU."""

    pid: int
    process_name: str
    gpu_uuid: str
    used_memory: str


def get_gpus() -> Tuple[List[GPU], str]:
    """Return the GPUs and their kind: `cuda`, or '' if there is none."""
    fields = ("index", "uuid", "utilization.gpu", "memory.used", "memory.total")
    rows = _rows("gpu", fields, "csv,noheader,nounits")
    gpus = [_gpu(*row) for row in rows]
    return gpus, "cuda" if gpus else ""


def get_gpu_uuids() -> List[str]:
    return [gpu.uuid for gpu in get_gpus()[0]]


def get_gpu_processes() -> List[GPUProcess]:
    rows = _rows("compute-apps", ("pid", "process_name", "gpu_uuid", "used_memory"), "csv,noheader")
    return [GPUProcess(int(pid), name, uuid, memory) for pid, name, uuid, memory in rows]


def _gpu(index: str, uuid: str, load: str, used: str, total: str) -> GPU:
    total_mib = _number(total)
    return GPU(
        int(index), uuid, _number(load) / 100, _number(used) / total_mib if total_mib else 0.0
    )


def _number(text: str) -> float:
    """Return a figure, or 0.0 for one that the driver does not support (`[N/A]`)."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def _rows(what: str, fields: Sequence[str], form: str) -> List[List[str]]:
    """Return the rows of a query of `nvidia-smi`; none if the program is missing or fails."""
    command = ["nvidia-smi", f"--query-{what}={','.join(fields)}", f"--format={form}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    rows = csv.reader(done.stdout.splitlines(), skipinitialspace=True)
    return [[cell.strip() for cell in row] for row in rows if len(row) == len(fields)]
