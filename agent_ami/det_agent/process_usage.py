"""The resources of a tree of processes, from /proc."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from det_agent.runtime import Usage


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    cpu_ticks: int  # with the processes that it has waited for
    memory_pages: int


def usage_of_tree(root: int) -> Usage | None:
    """Return the resources of the descendants of a process, or None if there are none.

    The CPU time includes the root's, because it has waited for orphans that ended. Pages that processes share
    count for each of them. The kernel does not count the network by process."""
    processes = {process.pid: process for process in _processes()}
    tree = list(_descendants(root, processes))
    if not tree:
        return None
    page, tick = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
    read, written = _disk_bytes([root, *(process.pid for process in tree)])
    waited = processes[root].cpu_ticks if root in processes else 0
    return Usage(
        cpu_s=(waited + sum(process.cpu_ticks for process in tree)) / tick,
        cpu_limit=len(os.sched_getaffinity(0)),
        memory=sum(process.memory_pages for process in tree) * page,
        memory_limit=os.sysconf("SC_PHYS_PAGES") * page,
        disk_read=read,
        disk_write=written,
    )


def _processes() -> Iterator[_Process]:
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        ticks = sum(int(field) for field in fields[11:15])
        yield _Process(int(name), int(fields[1]), ticks, int(fields[21]))


def _descendants(root: int, processes: Mapping[int, _Process]) -> Iterator[_Process]:
    children: dict[int, list[_Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    waiting = list(children.get(root, ()))
    while waiting:
        process = waiting.pop()
        yield process
        waiting += children.get(process.pid, ())


def _disk_bytes(pids: list[int]) -> tuple[float | None, float | None]:
    """Return the bytes that processes read from disks and wrote, or None if the agent may not see them."""
    totals = {"read_bytes": 0, "write_bytes": 0}
    for pid in pids:
        try:
            with open(f"/proc/{pid}/io") as f:
                lines = f.read().splitlines()
        except PermissionError:
            return None, None
        except OSError:
            continue
        for name, _, value in (line.partition(": ") for line in lines):
            if name in totals:
                totals[name] += int(value)
    return float(totals["read_bytes"]), float(totals["write_bytes"])
