"""Measure the cost of deadlines on spot machines, on traces of availability.

`python -m bench.deadline --traces DIR` prints one JSON line for each figure. DIR has folders of JSON files, a file for
each zone: `metadata.gap_seconds`, and `data`, the number of machines at each tick. Costs are divided by the cost of a
policy that knows the future.
"""

import argparse
import itertools
import json
import os
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from bench.deadline_replay import POLICIES, Job, Outcome, Trace, optimum, read_traces, replay

LENGTHS_H = (24.0, 48.0, 72.0)
SLACKS = (0.1, 0.2, 0.4, 0.6)
RESTARTS_H = (0.1, 0.3, 0.5)
SPOT_PRICE = 0.3
FLOORS = {"several zones": 1.10, "one zone": 1.20}
PRODUCT, PEER = "product", "uniform_progress"


class Case(NamedTuple):
    job: Job
    trace: Trace


class Result(NamedTuple):
    case: Case
    optimum: float
    outcomes: dict[str, Outcome]

    @property
    def kind(self) -> str:
        return "one zone" if len(self.case.trace.zones) == 1 else "several zones"


def cases(traces: list[Trace], starts: int, seed: int, spot_price: float) -> Iterator[Case]:
    """Yield each setting on each trace, from random ticks: more of them for a trace of several zones."""
    numbers = random.Random(seed)
    for trace, work, slack, restart in itertools.product(traces, LENGTHS_H, SLACKS, RESTARTS_H):
        job = Job(work, slack, restart, spot_price)
        ticks = job.ticks(trace)
        length = len(trace.zones[0])
        if ticks > length:
            continue
        for _ in range(starts * len(trace.zones)):
            yield Case(job, trace.cut(numbers.randint(0, length - ticks), ticks))


def run(case: Case) -> Result:
    outcomes = {name: replay(policy(), *case) for name, policy in POLICIES.items()}
    return Result(case, optimum(*case), outcomes)


def figure(name: str, value: float, floor: float | None, unit: str, **more: Any) -> None:
    line = {"name": name, "value": value, "unit": unit, "floor": floor, "better": "lower", **more}
    print(json.dumps(line), flush=True)


def report(results: list[Result]) -> None:
    missed = sum(result.outcomes[PRODUCT].missed for result in results)
    figure("deadline_missed", missed, 0, "jobs", of=len(results))
    for kind in FLOORS:
        chosen = [result for result in results if result.kind == kind]
        if not chosen:
            continue
        best = sum(result.optimum for result in chosen)
        for policy in POLICIES:
            cost = sum(result.outcomes[policy].cost for result in chosen)
            floor = FLOORS[kind] if policy == PRODUCT else None
            name = f"deadline_cost_{policy}_{kind.replace(' ', '_')}"
            figure(name, round(cost / best, 3), floor, "x optimum", jobs=len(chosen))
        above = _settings_above_peer(chosen)
        figure(
            f"deadline_settings_above_uniform_progress_{kind.replace(' ', '_')}",
            len(above),
            0,
            "settings",
            of=len(LENGTHS_H) * len(SLACKS) * len(RESTARTS_H),
            which=above,
        )


def _settings_above_peer(results: list[Result]) -> list[str]:
    costs: defaultdict[Job, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for result in results:
        costs[result.case.job][0] += result.outcomes[PRODUCT].cost
        costs[result.case.job][1] += result.outcomes[PEER].cost
    return [
        f"{job.work_h:g} h, slack {job.slack:.0%}, restart {job.restart_h:g} h: {ours / peer:.3f}"
        for job, (ours, peer) in costs.items()
        if ours > peer * (1 + 1e-9)
    ]


def report_traces(results: list[Result]) -> None:
    """Print the ratios of each trace to stderr."""
    by_trace: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_trace[result.case.trace.name].append(result)
    for name, chosen in by_trace.items():
        best = sum(result.optimum for result in chosen)
        ratios = " ".join(
            f"{policy} {sum(r.outcomes[policy].cost for r in chosen) / best:.3f}"
            for policy in POLICIES
        )
        print(f"{name:<44} {ratios}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.deadline")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="folders of traces")
    parser.add_argument("--starts", type=int, default=1, help="random starts of each setting")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spot-price", type=float, default=SPOT_PRICE, help="on demand is 1")
    parser.add_argument("--machines", type=int, help="machines that a job needs at a time")
    arguments = parser.parse_args()
    if arguments.traces is None:
        print("bench/deadline.py: not run; it needs traces: --traces DIR", file=sys.stderr)
        return 0
    traces = read_traces(arguments.traces, arguments.machines)
    todo = list(cases(traces, arguments.starts, arguments.seed, arguments.spot_price))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(run, todo, chunksize=4))
    report(results)
    report_traces(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
