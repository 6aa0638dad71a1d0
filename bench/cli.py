"""Measure the CPU time of commands, as whole processes: `python bench/cli.py` prints one JSON line for each figure.

The peer is Determined's own client 0.38.1, measured the same way on the same machine.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

RUNS = 15


def cpu_ms(words: list[str], env: Mapping[str, str]) -> float:
    """Return user and system time of the cheapest run. The other runs were disturbed by other programs."""
    command = [sys.executable, "-m", "det_cli.main", *words]
    best = float("inf")
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        best = min(best, seconds * 1000)
    return best


def figure(name: str, value: float, floor: float, peer: "float | None") -> None:
    line = {"name": name, "value": round(value, 1), "unit": "ms", "floor": floor}
    print(json.dumps({**line, "better": "lower", "peer": peer}), flush=True)


def main() -> None:
    from tests.support.fake_cluster import FakeCluster

    with FakeCluster() as cluster, tempfile.TemporaryDirectory() as home:
        for id in range(1, 101):
            cluster.add(id)
        env = {**os.environ, "HOME": home, "DET_MASTER": cluster.url}
        figure("det_help_cpu", cpu_ms(["--help"], env), 120, 670)
        figure("det_create_help_cpu", cpu_ms(["e", "create", "--help"], env), 150, None)
        list_ms = cpu_ms(["experiment", "list", "--all"], env)
        figure("det_list_100_experiments_cpu", list_ms, 250, 715)


if __name__ == "__main__":
    main()
