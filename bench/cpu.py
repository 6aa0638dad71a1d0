"""Read CPU time and memory of other processes from /proc."""

from collections.abc import Iterator
from pathlib import Path

MIB = 1024


def tree(pid: int) -> Iterator[int]:
    """Yield the process and all its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except FileNotFoundError:
            continue
        for child in children:
            yield from tree(int(child))


def cpu_ms(pids: list[int]) -> float:
    """Return the CPU time of all threads of some processes, more precisely than the hundredths of /proc/PID/stat."""
    total = 0
    for pid in pids:
        for schedule in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(schedule.read_text().split()[0])
            except FileNotFoundError:
                continue
    return total / 1e6


def memory_mib(pids: list[int]) -> float:
    """Return the proportional set size, which counts shared memory of PostgreSQL's processes once."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / MIB
