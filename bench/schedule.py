"""Measure the CPU time of one scheduling pass: `python bench/schedule.py` prints one JSON line for each figure."""

import gc
import hashlib
import json
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from det_controlplane.core.placement.model import Agent, Placement
from det_controlplane.core.schedule import Job, PoolSettings, PoolSnapshot, Request, Running, decide

AGENTS = 1_000
SLOTS = 8
ROUNDS = 15
FLOOR_MS = 20.0
COLLECT = (10_000, 20, 20)  # thresholds of garbage collection, as in the API's process
FLOORED = {"schedule_10k_queued_1k_agents", "schedule_1k_gangs_1k_agents"}


def queue_and_running(
    settings: PoolSettings,
    queued: int,
    running_priorities: tuple[int, ...] = (2, 6, 12),
    shuffled: bool = False,
) -> PoolSnapshot:
    """Return a pool in which half of the agents run two-slot trials, and trials of many sizes and all priorities wait.

    Rows are in the order of the queue, as the query returns them. If shuffled, they are in random order.
    """
    random_ = random.Random(7)
    arrivals = random_.sample(range(queued), queued)
    slots = random_.choices((0, 1, 1, 1, 2, 4, 8, 8, 16, 64), k=queued)
    priorities = random_.choices(range(1, 100), k=queued)
    if not shuffled:
        arrivals.sort(key=lambda n: (priorities[n], n))
    seats = [(n % AGENTS, n) for n in range(2 * AGENTS)]
    return PoolSnapshot(
        settings,
        tuple(Agent(f"agent-{n:04}", SLOTS, 4) for n in range(AGENTS)),
        tuple(
            Request(f"{n}.{n}", _job(f"job-{n}", priorities[n], 20_000 + n), slots[n], float(n))
            for n in arrivals
        ),
        tuple(
            Running(
                f"r{n}",
                _job(f"r{n}", running_priorities[n % len(running_priorities)], n),
                2,
                (Placement(f"agent-{on:04}", 2),),
                True,
                False,
                float(n),
            )
            for on, n in seats
        ),
    )


def gangs(preemption: bool) -> PoolSnapshot:
    """Return a pool with 1,000 waiting gangs of two to eight agents, and agents of three sizes."""
    random_ = random.Random(11)
    agents = tuple(Agent(f"agent-{n:04}", (4, 8, 8, 16)[n % 4]) for n in range(AGENTS))
    pending = tuple(
        Request(
            f"gang-{n}",
            _job(f"job-{n}", 1 + n % 99, n),
            random_.choice((32, 32, 48, 64, 24)),
            float(n),
        )
        for n in range(1_000)
    )
    settings = PoolSettings(preemption=preemption, allow_heterogeneous_fits=preemption)
    return PoolSnapshot(settings, agents, pending, ())


def _job(id: str, priority: int, position: int) -> Job:
    # Positions are real: microseconds since 1970, which are integers until the job is moved.
    return Job(priority, 1_790_000_000_000_000 + position, id, 1.0, None, float(position))


def usual_scan(snapshot: PoolSnapshot) -> int:
    """Place requests like a scheduler that scores, hashes and sorts all agents for each; return the number placed."""
    free = {agent.id: agent.slots - agent.used for agent in snapshot.agents}
    hashes = {id: _hash(id) for id in free}
    count = 0
    for request in snapshot.pending:
        own_hash = _hash(request.allocation_id)
        fits = [
            (-1 / (1 + empty), (own_hash - hashes[id]) % 2**64, id)
            for id, empty in free.items()
            if empty >= request.slots
        ]
        if fits:
            free[sorted(fits)[0][2]] -= request.slots
            count += 1
    return count


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.md5(name.encode()).digest()[:8], "little")


def decide_and_explain(snapshot: PoolSnapshot) -> None:
    """Decide, and create the reason of each waiting request, as the scheduler's service needs them."""
    deque(decide(snapshot, 0.0).waiting.items(), maxlen=0)


def cpu_ms(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the CPU time of the round with the least disturbance."""
    times = []
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        work()
        times.append((time.process_time() - start) * 1_000)
    return min(times)


def main() -> None:
    gc.set_threshold(*COLLECT)
    preempting = PoolSettings(preemption=True)
    mixed = queue_and_running(preempting, 10_000)
    peer = cpu_ms(lambda: usual_scan(mixed), rounds=2)
    runs = {
        "schedule_10k_queued_1k_agents": mixed,
        "schedule_10k_in_no_order": queue_and_running(preempting, 10_000, shuffled=True),
        "schedule_10k_and_all_2k_running_preempted": queue_and_running(preempting, 10_000, (99,)),
        "schedule_1k_gangs_1k_agents": gangs(preemption=False),
        "schedule_1k_mixed_gangs_with_preemption": gangs(preemption=True),
        "schedule_10k_no_preemption": replace(mixed, settings=PoolSettings()),
        "schedule_10k_worst_fit": replace(
            mixed, settings=replace(preempting, fitting_policy="worst")
        ),
        "schedule_10k_fair_share": replace(mixed, settings=PoolSettings(scheduler="fair_share")),
        "schedule_10k_round_robin": replace(mixed, settings=PoolSettings(scheduler="round_robin")),
    }
    for name, snapshot in runs.items():
        value = cpu_ms(partial(decide_and_explain, snapshot))
        floor = FLOOR_MS if name in FLOORED else None
        figure = {"name": name, "value": round(value, 2), "unit": "ms", "floor": floor}
        print(json.dumps({**figure, "better": "lower", "peer": round(peer, 1)}))


if __name__ == "__main__":
    main()
