"""The memory that this process may still use."""

from typing import Dict, Optional

# The part of the available memory that buffers may take. The rest is for data loaders and the file cache.
USABLE_SHARE = 0.8
_CGROUP = "/sys/fs/cgroup"


def available_bytes() -> Optional[int]:
    """Return the free memory of the machine, or of the container if it has a limit. None if it is unknown."""
    amounts = [a for a in (_machine(), _container_v2(), _container_v1()) if a is not None]
    return min(amounts, default=None)


def fits(size: int, processes: int) -> bool:
    """Return whether each of the processes on this machine can allocate `size` more bytes."""
    available = available_bytes()
    return available is None or size * processes <= available * USABLE_SHARE


def _machine() -> Optional[int]:
    kib = _fields("/proc/meminfo").get("MemAvailable:")
    return None if kib is None else kib * 1024


def _container_v2() -> Optional[int]:
    cached = _fields(f"{_CGROUP}/memory.stat").get("inactive_file", 0)
    return _free(f"{_CGROUP}/memory.max", f"{_CGROUP}/memory.current", cached)


def _container_v1() -> Optional[int]:
    folder = f"{_CGROUP}/memory"
    cached = _fields(f"{folder}/memory.stat").get("total_inactive_file", 0)
    return _free(f"{folder}/memory.limit_in_bytes", f"{folder}/memory.usage_in_bytes", cached)


def _free(limit_file: str, usage_file: str, cached: int) -> Optional[int]:
    limit, usage = _number(limit_file), _number(usage_file)
    return None if limit is None or usage is None else max(0, limit - usage + cached)


def _number(path: str) -> Optional[int]:
    """Return the number in a file. Files of cgroups without a limit have the text `max`."""
    try:
        with open(path) as f:
            return int(f.read())
    except (OSError, ValueError):
        return None


def _fields(path: str) -> Dict[str, int]:
    try:
        with open(path) as f:
            rows = [line.split() for line in f]
    except OSError:
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}
