"""Agents that hold the data sets of a request are preferred, and no request waits for them."""

from collections import Counter
from dataclasses import replace
from typing import Any

from det_controlplane.core.placement.links import topology_of
from det_controlplane.core.placement.model import Agent
from det_controlplane.core.schedule import PoolSnapshot, Request, SchedulePlan, decide
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.schedule_strategies import pools
from tests.support.schedules import NOW, agent, apply, pool, request
from tests.support.thorough import often
from tests.support.topologies import nvswitch

SOURCES = ("s3://bucket/a", "s3://bucket/b")
many = settings(max_examples=often(60, 150))


def starts(*agents: Agent, **changes: Any) -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the agents and the sentence of a started request."""
    wanted = {"data_sets": SOURCES[:1], **changes}
    snapshot = pool(agents, pending=[replace(request("r", 1), **wanted)])
    return {
        s.allocation_id: (tuple(p.agent_id for p in s.placements), s.data_reason)
        for s in decide(snapshot, NOW).start
    }


def holding(id: str, slots: int = 4, size: int = 40_000_000_000, **more: Any) -> Agent:
    return agent(id, slots, data_sets=((SOURCES[0], size),), **more)


def others(slots: int = 4) -> list[Agent]:
    return [agent(f"b{n}", slots) for n in range(20)]


def test_agent_that_holds_the_data_set_is_chosen_and_the_sentence_says_so() -> None:
    for id in ("a", "m", "z"):  # hashes of ids decide otherwise
        assert starts(*others(), holding(id)) == {
            "r": ((id,), f"{id} was chosen because it holds s3://bucket/a (40 GB)")
        }


def test_agent_with_the_most_bytes_is_chosen() -> None:
    found = starts(holding("a", size=10), holding("b", size=30), holding("c", size=20))
    assert found["r"][0] == ("b",)


def test_fitting_policy_goes_first() -> None:
    busy = agent("busy", 4, used=3)
    assert starts(busy, holding("idle"))["r"] == (("busy",), "")


def test_only_agent_is_not_called_a_choice() -> None:
    assert starts(holding("a"))["r"] == (("a",), "a holds s3://bucket/a (40 GB)")


def test_full_agent_with_the_data_set_is_not_waited_for() -> None:
    assert starts(holding("a", used=4), agent("b", 4))["r"] == (("b",), "")


def test_gang_takes_agents_that_hold_the_data_set() -> None:
    agents = [*others(), holding("x"), holding("y")]
    found, sentence = starts(*agents, slots=8)["r"]
    assert set(found) == {"x", "y"}
    assert sentence == "x holds s3://bucket/a (40 GB); y holds s3://bucket/a (40 GB)"


def test_container_without_slots_prefers_the_data_set_too() -> None:
    assert starts(*others(), holding("x"), slots=0)["r"][0] == ("x",)


def test_equally_linked_agents_are_compared_by_their_data() -> None:
    linked: dict[str, Any] = {"free_slots": tuple(range(8)), "topology": topology_of(nvswitch())}
    agents = [agent(f"b{n}", 8, **linked) for n in range(20)]
    assert starts(*agents, holding("x", 8, **linked), slots=4)["r"][0] == ("x",)


def test_sentence_names_at_most_two_data_sets() -> None:
    sources = tuple(f"s3://bucket/{name}" for name in "abcd")
    rich = agent("x", 4, data_sets=tuple((source, 1_000) for source in sources))
    sentence = starts(rich, data_sets=sources)["r"][1]
    assert sentence == "x holds s3://bucket/a (1 kB) and s3://bucket/b (1 kB) and 2 more"


def shapes(snapshot: PoolSnapshot, plan: SchedulePlan) -> Counter[tuple[int, int, int]]:
    after = apply(snapshot, plan)
    return Counter((a.slots, a.used, a.aux_used) for a in after.agents)


@st.composite
def pools_with_data(draw: Any) -> PoolSnapshot:
    """Draw a pool of one place in which every request may use every agent, and data sets on its agents."""
    snapshot: PoolSnapshot = draw(pools())
    held = st.lists(st.tuples(st.sampled_from(SOURCES), st.integers(1, 5)), max_size=2)
    agents = [a._replace(place="", data_sets=tuple(draw(held))) for a in snapshot.agents]
    pending = [
        replace(r, blocked_agents=frozenset(), data_sets=tuple(draw(st.sets(st.sampled_from(SOURCES)))))
        for r in snapshot.pending
    ]  # fmt: skip
    return replace(snapshot, agents=tuple(agents), pending=tuple(pending))


@many
@given(pools_with_data())
def test_preference_for_data_delays_no_start(snapshot: PoolSnapshot) -> None:
    snapshot = replace(snapshot, settings=replace(snapshot.settings, preemption=False))
    plain = replace(snapshot, agents=tuple(a._replace(data_sets=()) for a in snapshot.agents))
    with_data, without = decide(snapshot, NOW), decide(plain, NOW)
    assert [s.allocation_id for s in with_data.start] == [s.allocation_id for s in without.start]
    assert shapes(snapshot, with_data) == shapes(plain, without)


@many
@given(pools_with_data())
def test_each_request_alone_starts_as_without_the_preference(snapshot: PoolSnapshot) -> None:
    def alone(one: Request, agents: tuple[Agent, ...]) -> int:
        return len(decide(replace(snapshot, agents=agents, pending=(one,)), NOW).start)

    plain = tuple(a._replace(data_sets=()) for a in snapshot.agents)
    for one in snapshot.pending:
        assert alone(one, snapshot.agents) == alone(one, plain)
