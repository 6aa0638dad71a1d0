"""The resources of a container, from the statistics of its engine."""

from collections.abc import Iterable, Mapping
from typing import Any

from docker.errors import InvalidVersion

from det_agent.runtime import Usage

NANO = 1e9


def read_usage(api: Any, docker_id: str) -> Usage | None:
    """Return the resources of a container, or None if it does not run. Raises DockerException or OSError."""
    try:
        # Without this option, the engine measures for a second to compute a percentage.
        stats = api.stats(docker_id, stream=False, one_shot=True)
    except InvalidVersion:
        stats = api.stats(docker_id, stream=False)
    return usage_of(stats)


def usage_of(stats: Mapping[str, Any]) -> Usage | None:
    """Return the resources in an answer of the engine. The answer for a stopped container has no memory."""
    memory, cpu = stats.get("memory_stats") or {}, stats.get("cpu_stats") or {}
    if not memory.get("usage"):
        return None
    networks = (stats.get("networks") or {}).values()
    blocks = (stats.get("blkio_stats") or {}).get("io_service_bytes_recursive") or ()
    used_ns = (cpu.get("cpu_usage") or {}).get("total_usage")
    return Usage(
        cpu_s=None if used_ns is None else used_ns / NANO,
        cpu_limit=cpu.get("online_cpus") or None,
        memory=memory["usage"] - _cache(memory),
        memory_limit=memory.get("limit") or None,
        disk_read=_bytes(blocks, "read"),
        disk_write=_bytes(blocks, "write"),
        # A container in the host's network has no counters of its own.
        net_received=sum(n.get("rx_bytes", 0) for n in networks) if networks else None,
        net_sent=sum(n.get("tx_bytes", 0) for n in networks) if networks else None,
    )


def _cache(memory: Mapping[str, Any]) -> float:
    """Return the file cache that the kernel frees first. Control groups of version 1 and 2 name it differently."""
    stats = memory.get("stats") or {}
    cache = stats.get("total_inactive_file", stats.get("inactive_file", 0))
    return float(cache) if cache < memory["usage"] else 0.0


def _bytes(blocks: Iterable[Mapping[str, Any]], op: str) -> float:
    return float(sum(b.get("value", 0) for b in blocks if str(b.get("op")).lower() == op))
