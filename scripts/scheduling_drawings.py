"""Draw the examples of docs/concepts/scheduling.md with the scheduler itself.

python -m scripts.scheduling_drawings           print the current page
python -m scripts.scheduling_drawings --write   update the page
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from det_controlplane.core.placement.model import Agent, Placement
from det_controlplane.core.schedule import PoolSnapshot, SchedulePlan, decide, with_job_names

from scripts.pages import redrawn, update
from tests.support import schedules

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "scheduling.md"
Task = tuple[str, int, int]  # name, priority, slots
Held = tuple[str, int, dict[str, int]]  # name, priority, slots by agent


def pool(
    agents: dict[str, int], running: list[Held], queue: list[Task], **settings: Any
) -> PoolSnapshot:
    job_priorities = enumerate((name, priority) for name, priority, _ in (*running, *queue))
    return schedules.pool(
        [schedules.agent(id, slots) for id, slots in agents.items()],
        pending=[schedules.request(name, slots) for name, _, slots in queue],
        running=[schedules.running(name, **on) for name, _, on in running],
        jobs=[
            schedules.job(name, priority, position=at) for at, (name, priority) in job_priorities
        ],
        **settings,
    )


def draw(snapshot: PoolSnapshot, waited_s: float = 0.0) -> str:
    plan = decide(snapshot, waited_s)
    names = {request.job.id: f"experiment {request.job.id}" for request in snapshot.pending}
    lines = [_agent(agent, snapshot, plan) for agent in snapshot.agents]
    lines.append("")
    backfilled = {s.allocation_id: s.backfilled for s in plan.start}
    for request in snapshot.pending:
        id = request.allocation_id
        slots = f"{request.slots} slot" + "s" * (request.slots != 1)
        request_text = f"{id}  priority {request.job.priority}, {slots}"
        if id in backfilled:
            decision = "starts as backfill" if backfilled[id] else "starts"
        else:
            code, sentence = plan.waiting[id]
            decision = f"{code.value}: {with_job_names(sentence, names)}"
        lines.append(f"{request_text:<26} {decision}")
    lines += [f"{victim.allocation_id}  is asked to leave" for victim in plan.preempt]
    return "\n".join(lines)


def _agent(agent: Agent, snapshot: PoolSnapshot, plan: SchedulePlan) -> str:
    """Draw `gpu-1 [A A . .] → [A A B .]`: an agent's work now, and after the plan took effect."""
    before = _cells(agent, [(r.allocation_id, r.placements) for r in snapshot.running])
    starts = [(s.allocation_id.lower(), s.placements) for s in plan.start]
    after = _cells(agent, [*((r.allocation_id, r.placements) for r in snapshot.running), *starts])
    return f"{agent.id}  [{before}]  →  [{after}]"


def _cells(agent: Agent, placements: list[tuple[str, tuple[Placement, ...]]]) -> str:
    cells = [
        name
        for name, on in placements
        for p in on
        if p.agent_id == agent.id
        for _ in range(p.slots)
    ]
    return " ".join(cells + ["."] * (agent.slots - len(cells)))


def draw_fitting() -> str:
    queue = [("A", 42, 1), ("B", 42, 8), ("C", 42, 2)]
    agents = {"gpu-1": 4, "gpu-2": 4, "gpu-3": 4}
    return draw(pool(agents, [("X", 42, {"gpu-1": 1})], queue))


def draw_blocking() -> str:
    queue = [("A", 50, 4), ("B", 50, 1), ("C", 40, 1), ("D", 40, 12)]
    return draw(pool({"gpu-1": 4, "gpu-2": 4}, [], queue))


def draw_kept() -> str:
    running = [("X", 42, {"gpu-1": 1}), ("Y", 42, {"gpu-2": 1})]
    queue = [("A", 42, 2), ("B", 42, 1), ("C", 42, 1)]
    return draw(pool({"gpu-1": 2, "gpu-2": 2}, running, queue), waited_s=360.0)


def draw_preemption() -> str:
    running = [("X", 55, {"gpu-1": 1}), ("Y", 40, {"gpu-2": 4})]
    queue = [("A", 50, 1), ("B", 45, 1), ("C", 40, 2), ("D", 40, 8)]
    return draw(pool({"gpu-1": 4, "gpu-2": 4}, running, queue, preemption=True))


def draw_shares() -> str:
    queue = [("A", 42, 2), ("B", 42, 2), ("C", 42, 8)]
    running = [("X", 42, {"gpu-1": 4})]
    return draw(pool({"gpu-1": 8}, running, queue, scheduler="fair_share"))


DRAWINGS: dict[str, Callable[[], str]] = {
    "fitting": draw_fitting,
    "blocking": draw_blocking,
    "kept": draw_kept,
    "preemption": draw_preemption,
    "shares": draw_shares,
}


def drawn(page: str) -> str:
    return redrawn(page, DRAWINGS)


if __name__ == "__main__":
    update(PAGE, drawn)
