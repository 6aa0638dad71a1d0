"""Every waiting request has a reason of one sentence."""

from typing import Any

from det_controlplane.core.placement.model import Agent
from det_controlplane.core.schedule import Request, WaitCode, WaitReason, decide

from tests.support.schedules import NOW, agent, agents, job, pool, request, running


def why(*on: Agent, ask: Request, **more: Any) -> WaitReason:
    return decide(pool(on, pending=[ask], **more), NOW).waiting[ask.allocation_id]


def test_reason_for_too_few_free_slots() -> None:
    waiting = why(agent("gpu-1", 4, 2), agent("gpu-2", 4, 3), ask=request("r", 4))
    assert waiting.code is WaitCode.NO_FREE_SLOTS
    assert waiting.sentence == (
        "needs 4 slots on one agent or on wholly free agents of one size; "
        "the most any agent has free is 2 (gpu-1); it starts when slots are freed"
    )


def test_reason_for_a_pool_without_agents() -> None:
    waiting = why(ask=request("r", 4))
    assert waiting.code is WaitCode.NO_AGENTS
    assert "the pool has no agent with slots; start one" in waiting.sentence


def test_reason_for_a_pool_that_can_add_machines() -> None:
    waiting = why(ask=request("r", 4), max_slots_per_launch=8)
    assert waiting.code is WaitCode.NO_AGENTS
    assert "machines with up to 8 slots can be added" in waiting.sentence


def test_reason_for_a_gang_that_fits_on_future_machines() -> None:
    waiting = why(*agents(4), ask=request("r", 16), max_slots_per_launch=8)
    assert waiting.code is WaitCode.NO_AGENTS


def test_reason_for_a_request_larger_than_every_agent() -> None:
    waiting = why(agent("gpu-1", 8), ask=request("r", 16, single_agent=True))
    assert waiting.code is WaitCode.TOO_LARGE
    assert "the largest agent has 8 (gpu-1)" in waiting.sentence
    assert "request fewer slots" in waiting.sentence


def test_reason_for_a_gang_that_waits_for_free_agents() -> None:
    waiting = why(agent("a1", 4), agent("a2", 4, 1), ask=request("r", 8))
    assert waiting.code is WaitCode.NO_WHOLE_AGENTS
    assert "1 of 2 agents is wholly free" in waiting.sentence


def test_reason_for_draining_or_disabled_agents() -> None:
    waiting = why(agent("a1", 4, draining=True), agent("a2", 1), ask=request("r", 4))
    assert waiting.code is WaitCode.AGENT_DRAINING
    assert "`det agent enable a1`" in waiting.sentence


def test_reason_for_agents_out_of_service() -> None:
    broken_agent = agent("a1", 4, out_of_service="the Docker engine does not answer")
    waiting = why(broken_agent, agent("a2", 1), ask=request("r", 4))
    assert waiting.code is WaitCode.AGENT_OUT_OF_SERVICE
    assert "(a1); a1: the Docker engine does not answer" in waiting.sentence
    assert "det-agent doctor" in waiting.sentence


def test_reason_for_blocked_agents() -> None:
    waiting = why(*agents(4, 1), ask=request("r", 4, blocked_agents=frozenset({"a1"})))
    assert waiting.code is WaitCode.BLOCKED_NODES
    assert "(a1)" in waiting.sentence


def test_reason_for_the_limit_of_containers_without_slots() -> None:
    waiting = why(agent("a1", 4, aux_limit=2, aux_used=2), ask=request("r", 0))
    assert waiting.code is WaitCode.AUX_LIMIT
    assert "(2)" in waiting.sentence


def test_reason_for_a_pool_without_containers_without_slots() -> None:
    waiting = why(agent("a1", 4, aux_limit=0), ask=request("r", 0))
    assert waiting.code is WaitCode.AUX_LIMIT
    assert "select another pool" in waiting.sentence


def test_reason_for_a_more_important_priority() -> None:
    pending = [request("big", 8), request("small", 1)]
    jobs = [job("big", 10), job("small", 50)]
    waiting = decide(pool(agents(4), pending=pending, jobs=jobs), NOW).waiting
    assert waiting["small"].code is WaitCode.BEHIND_HIGHER_PRIORITY
    assert "priority 10 goes first: job <big> waits for 8 slots" in waiting["small"].sentence


def test_reason_for_waiting_for_preemption() -> None:
    waiting = why(
        *agents(4),
        ask=request("high", 4),
        running=[running("low", a1=4)],
        jobs=[job("low", 90), job("high", 1)],
        preemption=True,
    )
    assert waiting.code is WaitCode.WAITING_FOR_PREEMPTION
    assert waiting.sentence.startswith("is next on a1;")


def test_requests_waiting_for_the_same_cause_share_one_reason() -> None:
    pending = [request(f"r{n}", 4) for n in range(50)]
    waiting = decide(pool(agents(2), pending=pending), NOW).waiting
    assert len(waiting) == 50
    assert len({id(reason) for reason in waiting.values()}) == 1
