"""Which agents a request gets."""

import hashlib
from typing import Any

import pytest
from det_controlplane.core.placement.model import Agent
from det_controlplane.core.schedule import WaitCode, decide

from tests.support.schedules import NOW, agent, agents, pool, request, starts


def placed(
    slots: int, *on: Agent, fitting_policy: str = "best", mixed: bool = False, **more: Any
) -> dict[str, int] | None:
    snapshot = pool(
        on,
        pending=[request("r", slots, **more)],
        fitting_policy=fitting_policy,
        allow_heterogeneous_fits=mixed,
    )
    return starts(decide(snapshot, NOW)).get("r")


def of(*total_and_used: tuple[int, int]) -> list[Agent]:
    return [agent(f"a{n}", total, used) for n, (total, used) in enumerate(total_and_used, 1)]


def test_best_fit_chooses_the_agent_with_fewest_remaining_slots() -> None:
    assert placed(2, *of((2, 0), (4, 0))) == {"a1": 2}
    assert placed(1, *of((4, 0), (1, 0))) == {"a2": 1}


def test_best_fit_compares_free_slots_instead_of_size() -> None:
    assert placed(2, *of((4, 0), (8, 6))) == {"a2": 2}


def test_worst_fit_chooses_the_agent_with_the_largest_free_fraction() -> None:
    assert placed(1, *of((2, 1), (4, 1)), fitting_policy="worst") == {"a2": 1}
    assert placed(1, *of((2, 1), (5, 3)), fitting_policy="worst") == {"a1": 1}


def test_worst_fit_orders_fully_free_agents_by_hash() -> None:
    nearest = min(("a1", "a2"), key=lambda id: hash_distance("r", id))
    assert placed(4, *of((8, 0), (4, 0)), fitting_policy="worst") == {nearest: 4}


def test_tie_goes_to_the_agent_with_the_next_lower_hash() -> None:
    names = [f"agent-{n}" for n in range(20)]
    for allocation in ("1.0", "2.0", "command-x", "17.3"):
        snapshot = pool([Agent(name, 2) for name in names], pending=[request(allocation, 1)])
        nearest = min(names, key=lambda id: hash_distance(allocation, id))
        assert starts(decide(snapshot, NOW))[allocation] == {nearest: 1}


def test_a_container_without_slots_joins_the_fullest_agent_in_best_fit() -> None:
    on = [agent("a1", 0, aux_used=1), agent("a2", 0, aux_used=0)]
    assert placed(0, *on) == {"a1": 0}


def test_a_container_without_slots_joins_the_emptiest_agent_in_worst_fit() -> None:
    on = [agent("a1", 0, aux_used=1), agent("a2", 0, aux_used=0)]
    assert placed(0, *on, fitting_policy="worst") == {"a2": 0}


def test_a_container_without_slots_prefers_an_agent_whose_slots_are_all_busy() -> None:
    assert placed(0, agent("a1", 4), agent("a2", 4, used=4)) == {"a2": 0}


def test_agent_runs_containers_without_slots_up_to_its_limit() -> None:
    assert placed(0, agent("a1", 4, aux_limit=1, aux_used=1)) is None
    assert placed(0, agent("a1", 4, aux_limit=0)) is None


@pytest.mark.parametrize(
    ("slots", "sizes", "chosen"),
    [
        (10, (1, 5, 10), {"a3": 10}),
        (16, (8, 7, 7, 4, 4, 4, 4), {"a4": 4, "a5": 4, "a6": 4, "a7": 4}),
        (12, (8, 8, 3, 3, 3), None),
        (4, (2, 1, 1), None),
    ],
)
def test_gang_uses_completely_free_agents_of_one_size(
    slots: int, sizes: tuple[int, ...], chosen: dict[str, int] | None
) -> None:
    assert placed(slots, *agents(*sizes)) == chosen


def test_gang_uses_only_as_many_agents_as_it_needs() -> None:
    seats = placed(8, *agents(4, 4, 4, 4, 4))
    assert seats is not None
    assert list(seats.values()) == [4, 4]


def at(place: str, *sizes: int) -> list[Agent]:
    return [agent(f"{place[:3]}{n}", size, place=place) for n, size in enumerate(sizes, 1)]


def test_gang_uses_agents_of_one_region() -> None:
    on = [*at("aws us-east-1", 4), *at("gcp us-central1", 4, 4)]
    assert placed(8, *on) == {"gcp1": 4, "gcp2": 4}


def test_agents_without_a_place_count_as_one_place() -> None:
    assert placed(8, *at("aws us-east-1", 4), *at("", 4, 4)) == {"1": 4, "2": 4}


@pytest.mark.parametrize("mixed", [False, True])
def test_gang_is_not_spread_over_regions_and_gives_the_reason(mixed: bool) -> None:
    on = [*at("aws us-east-1", 4), *at("gcp us-central1", 4)]
    assert placed(8, *on, mixed=mixed) is None
    waiting = decide(pool(on, pending=[request("r", 8)]), NOW).waiting["r"]
    assert waiting.code is WaitCode.NO_WHOLE_AGENTS
    assert "aws us-east-1 has 4, gcp us-central1 has 4" in waiting.sentence
    assert "stays within one region of one cloud" in waiting.sentence


def test_mixed_gang_uses_agents_of_one_region() -> None:
    on = [*at("aws us-east-1", 4), *at("gcp us-central1", 4, 2)]
    assert placed(6, *on, mixed=True) == {"gcp1": 4, "gcp2": 2}


def test_gang_uses_the_largest_agents_that_divide_it() -> None:
    assert placed(8, *agents(2, 2, 2, 2, 4, 4)) == {"a5": 4, "a6": 4}


def test_gang_ignores_busy_agents() -> None:
    assert placed(8, *of((4, 1), (4, 0))) is None
    assert placed(8, agent("a1", 4, aux_used=5), agent("a2", 4)) == {"a1": 4, "a2": 4}


@pytest.mark.parametrize(
    ("slots", "sizes", "chosen"),
    [
        (4, (2, 1, 1), [2, 1, 1]),
        (4, (2, 1, 1, 1, 1), [1, 1, 1, 1]),
        (63, (32, 32, 16, 16, 8, 8, 4, 4, 2, 2, 1, 1), [32, 16, 8, 4, 2, 1]),
        (3, (2, 2), [2, 1]),
        (9, (2, 2, 4), None),
    ],
)
def test_mixed_gang_uses_the_largest_agents_first(
    slots: int, sizes: tuple[int, ...], chosen: list[int] | None
) -> None:
    seats = placed(slots, *agents(*sizes), mixed=True)
    assert (list(seats.values()) if seats else None) == chosen


def test_rank_zero_runs_on_the_agent_with_the_most_slots() -> None:
    snapshot = pool(agents(1, 2, 4), pending=[request("r", 7)], allow_heterogeneous_fits=True)
    (start,) = decide(snapshot, NOW).start
    assert [p.slots for p in start.placements] == [4, 2, 1]


def test_a_request_for_one_agent_is_never_spread() -> None:
    assert placed(8, *agents(4, 4), single_agent=True) is None


@pytest.mark.parametrize("state", [{"enabled": False}, {"draining": True}])
def test_disabled_or_draining_agent_gets_no_work(state: dict[str, bool]) -> None:
    away = agent("a1", 4, **state)
    assert placed(1, away) is None
    assert placed(0, away) is None
    assert placed(8, away, agent("a2", 4)) is None


def test_blocked_agents_are_excluded_from_every_kind_of_fit() -> None:
    blocked = frozenset({"a1"})
    assert placed(1, *agents(1, 4), blocked_agents=blocked) == {"a2": 1}
    assert placed(0, *agents(1, 4), blocked_agents=blocked) == {"a2": 0}
    assert placed(8, *agents(4, 4, 4), blocked_agents=blocked) == {"a2": 4, "a3": 4}


def test_blocked_request_does_not_affect_the_next_request() -> None:
    pending = [request("r1", 1, blocked_agents=frozenset({"a1"})), request("r2", 1)]
    plan = decide(pool(agents(1), pending=pending), NOW)
    assert starts(plan) == {"r2": {"a1": 1}}
    assert [reason.code for reason in plan.waiting.values()] == [WaitCode.BLOCKED_NODES]


def hash_distance(allocation: str, agent_id: str) -> int:
    def hashed(name: str) -> int:
        return int.from_bytes(hashlib.md5(name.encode()).digest()[:8], "little")

    return (hashed(allocation) - hashed(agent_id)) % 2**64
