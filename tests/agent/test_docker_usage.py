"""The resources in the statistics of engines, in the forms of Docker and Podman."""

from typing import Any

from det_agent.docker_usage import read_usage, usage_of
from det_agent.runtime import Usage
from docker.errors import InvalidVersion

# The fields of GET /containers/ID/stats that matter, as Docker 27 writes them with control groups of version 2.
DOCKER: dict[str, Any] = {
    "read": "2026-11-30T08:00:00.123456789Z",
    "blkio_stats": {
        "io_service_bytes_recursive": [
            {"major": 259, "minor": 0, "op": "read", "value": 4096},
            {"major": 259, "minor": 0, "op": "write", "value": 8192},
            {"major": 259, "minor": 1, "op": "read", "value": 100},
        ]
    },
    "cpu_stats": {
        "cpu_usage": {"total_usage": 2_500_000_000, "usage_in_kernelmode": 5, "usage_in_usermode": 6},
        "system_cpu_usage": 10_000_000_000,
        "online_cpus": 16,
        "throttling_data": {"periods": 0, "throttled_periods": 0, "throttled_time": 0},
    },
    "memory_stats": {
        "usage": 5_000_000,
        "stats": {"anon": 1, "inactive_file": 2_000_000, "active_file": 3},
        "limit": 64_000_000,
    },
    "networks": {
        "eth0": {"rx_bytes": 700, "rx_packets": 3, "tx_bytes": 300, "tx_packets": 2},
        "eth1": {"rx_bytes": 7, "rx_packets": 3, "tx_bytes": 3, "tx_packets": 2},
    },
}  # fmt: skip
# A container that has ended. Docker leaves the sections empty.
STOPPED: dict[str, Any] = {
    "read": "0001-01-01T00:00:00Z",
    "blkio_stats": {"io_service_bytes_recursive": None},
    "cpu_stats": {"cpu_usage": {"total_usage": 0}, "throttling_data": {}},
    "memory_stats": {},
}


def test_docker_counts_are_added_over_disks_and_networks() -> None:
    assert usage_of(DOCKER) == Usage(2.5, 16, 3_000_000, 64_000_000, 4196, 8192, 707, 303)


def test_control_groups_of_version_1_name_the_cache_differently() -> None:
    stats = {"cache": 9, "inactive_file": 1, "total_inactive_file": 1_000_000}
    blocks = [{"op": "Read", "value": 5}, {"op": "Write", "value": 6}, {"op": "Total", "value": 11}]
    old = {
        **DOCKER,
        "memory_stats": {**DOCKER["memory_stats"], "stats": stats},
        "blkio_stats": {"io_service_bytes_recursive": blocks},
    }
    usage = usage_of(old)
    assert usage is not None
    assert (usage.memory, usage.disk_read, usage.disk_write) == (4_000_000, 5, 6)


def test_stopped_container_has_no_usage() -> None:
    assert usage_of(STOPPED) is None


def test_host_network_has_no_counters_of_its_own() -> None:
    usage = usage_of({name: part for name, part in DOCKER.items() if name != "networks"})
    assert usage is not None
    assert (usage.net_received, usage.net_sent) == (None, None)


def test_disks_without_traffic_count_zero() -> None:
    usage = usage_of({**DOCKER, "blkio_stats": {"io_service_bytes_recursive": None}})
    assert usage is not None
    assert (usage.disk_read, usage.disk_write) == (0, 0)


class Engine:
    """Answers with statistics. An engine before version 20.10 has no single measurements."""

    def __init__(self, *, is_old: bool) -> None:
        self._is_old = is_old
        self.asked: list[dict[str, Any]] = []

    def stats(self, docker_id: str, **options: Any) -> dict[str, Any]:
        if self._is_old and "one_shot" in options:
            raise InvalidVersion("one_shot is not supported for API version < 1.41")
        self.asked.append({"id": docker_id, **options})
        return DOCKER


def test_engine_is_asked_for_a_single_measurement() -> None:
    engine = Engine(is_old=False)
    assert read_usage(engine, "d1") == usage_of(DOCKER)
    assert engine.asked == [{"id": "d1", "stream": False, "one_shot": True}]


def test_older_engine_measures_for_a_second() -> None:
    engine = Engine(is_old=True)
    assert read_usage(engine, "d1") == usage_of(DOCKER)
    assert engine.asked == [{"id": "d1", "stream": False}]
